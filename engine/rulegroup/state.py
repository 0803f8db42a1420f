"""What a group remembers from one evaluation to the next, as data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.alerts.alert import AlertState
from engine.labels import Labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.alerts.alert import Alert
    from engine.alerts.machine import AlertTable
    from rules.model import Group, Rule

# After more than this long down, alert state starts anew (docs/semantics.md, 3).
MAX_DOWN_MS = 3_600_000


@dataclass(frozen=True, slots=True, order=True)
class RuleKey:
    """What state follows on a reload: the name, the labels as written, and, of several rules
    that share both, which one it is.
    """  # noqa: D205 - one sentence

    name: str
    labels: str
    ordinal: int = 0


@dataclass(frozen=True, slots=True)
class RuleState:
    """`alerts`: by labels (none for a recording rule). `series`: what the last good evaluation
    wrote, so that the next one can mark what has gone.
    """  # noqa: D205 - one sentence

    alerts: AlertTable = field(default_factory=dict)
    series: frozenset[Labels] = frozenset()


@dataclass(frozen=True, slots=True)
class GroupState:
    """`departed`: firing alerts that no rule carries any more and whose resolution is owed.
    `stale`: series of rules that are gone. The next evaluation settles both.
    """  # noqa: D205 - one sentence

    file: str
    group: str
    last_evaluation_ms: int | None = None
    rules: Mapping[RuleKey, RuleState] = field(default_factory=dict)
    departed: tuple[Alert, ...] = ()
    stale: frozenset[Labels] = frozenset()


def rule_keys(rules: Iterable[Rule]) -> tuple[RuleKey, ...]:
    """The key of each rule, in order."""
    seen: Counter[tuple[str, str]] = Counter()
    keys = []
    for rule in rules:
        pair = (rule.name, str(Labels(rule.labels)))
        keys.append(RuleKey(*pair, seen[pair]))
        seen[pair] += 1
    return tuple(keys)


def adopt(group: Group, old: GroupState | None) -> GroupState:
    """The state that a group starts from: the old one's for rules it still has."""
    if old is None:
        return GroupState(group.file, group.name)
    keys = rule_keys(group.rules)
    gone = [state for key, state in old.rules.items() if key not in keys]
    stale = old.stale.union(*(state.series for state in gone))
    kept = {key: old.rules.get(key, RuleState()) for key in keys}
    return replace(
        old,
        rules=kept,
        departed=old.departed + firing_alerts(gone),
        # A rule that stayed may have written the same series.
        stale=stale.difference(*(state.series for state in kept.values())),
    )


def disband(state: GroupState) -> GroupState:
    """What is owed of a group none of whose rules is left."""
    return GroupState(
        state.file,
        state.group,
        state.last_evaluation_ms,
        departed=state.departed + firing_alerts(state.rules.values()),
        stale=state.stale.union(*(rule.series for rule in state.rules.values())),
    )


def is_too_long_down(last_ms: int, start_ms: int, interval_ms: int, max_down_ms: int) -> bool:
    """Whether a group last evaluated at `last_ms` begins anew with a start at `start_ms`.

    A group whose interval is longer than `max_down_ms` has to miss a time first.
    """
    return start_ms - last_ms > max(max_down_ms, interval_ms)


def after_downtime(
    state: GroupState, now_ms: int, max_down_ms: int = MAX_DOWN_MS, interval_ms: int = 0
) -> GroupState:
    """The state with which a start at `now_ms` goes on.

    As it was, its clocks running, unless the group was last evaluated more than `max_down_ms`
    ago (see `is_too_long_down`): then empty, and what fired is owed its resolution.
    """
    last = state.last_evaluation_ms
    if last is None or not is_too_long_down(last, now_ms, interval_ms, max_down_ms):
        return state
    departed = state.departed + firing_alerts(state.rules.values())
    return GroupState(state.file, state.group, last, departed=departed)


def firing_alerts(states: Iterable[RuleState]) -> tuple[Alert, ...]:
    """Those of these rules that fire."""
    return tuple(
        alert
        for state in states
        for alert in state.alerts.values()
        if alert.state is AlertState.FIRING
    )
