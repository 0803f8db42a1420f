"""A group that is evaluated at one time: live, and in the parts of a replay that need it."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from engine.alerts.alert import AlertState
from engine.alerts.machine import AlertContext
from engine.alerts.templates import AlertTemplates
from engine.evidence import EvidenceCollector
from engine.rulegroup.alerting import watch
from engine.rulegroup.output import RuleFailure, RuleOutput
from engine.rulegroup.queries import query_at
from engine.rulegroup.recording import Naming, record
from engine.rulegroup.rows import evaluate_rule, fault
from engine.rulegroup.state import GroupState, RuleState, adopt, disband, rule_keys
from engine.series import STALE_NAN, Queryable, Sample
from rules.model import AlertingRule
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.alerts.alert import Alert
    from engine.flush import EventSource
    from engine.labels import Labels
    from engine.rulegroup.alerting import Collect
    from engine.rulegroup.common_parts import CommonParts
    from engine.rulegroup.options import GroupOptions
    from engine.rulegroup.state import RuleKey
    from engine.series import Float64Array, Int64Array
    from rules.model import Group, Rule

LOGGER = logging.getLogger(__name__)
Health = Literal["unknown", "ok", "err"]


class SampleStore(Queryable, Protocol):
    """What a group reads from and writes to."""

    def append_samples(
        self, timestamp_ms: int, labels: Sequence[Labels], values: Float64Array
    ) -> object:
        """Take samples of one time, so that the group's next rule sees them."""
        ...


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """A rule and how it fares, as `/api/v1/rules` shows it. `alerts`: those not yet forgotten."""

    rule: Rule
    health: Health = "unknown"
    last_error: str = ""
    last_evaluation_ms: int | None = None
    evaluation_seconds: float = 0.0
    alerts: tuple[Alert, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupEvaluation:
    """What one evaluation of a group at `time_ms` gave.

    `samples`: everything written, staleness markers included, stamped time - query offset.
    `transitions`: alerts that fired or resolved, to be delivered.
    """

    time_ms: int
    samples: tuple[Sample, ...] = ()
    transitions: tuple[Alert, ...] = ()
    failures: tuple[RuleFailure, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class RuleRunner:
    """One rule of a group with its state: evaluates it along evaluation times.

    In a replay annotations are expanded at the end, and `ALERTS` are written if `is_read`.
    """

    rule: Rule
    group: Group
    options: GroupOptions
    state: RuleState
    is_replay: bool = False
    is_read: bool = True
    context: AlertContext | None = field(init=False, default=None)
    naming: Naming | None = field(init=False, default=None)
    evidence: EvidenceCollector = field(init=False)

    def __post_init__(self) -> None:
        self.evidence = EvidenceCollector(self.rule)
        if isinstance(self.rule, AlertingRule):
            options, group = self.options, self.group
            self.context = AlertContext(
                rule=self.rule,
                templates=AlertTemplates(
                    self.rule,
                    options.external_labels,
                    options.external_url,
                    deferred=self.is_replay,
                ),
                file=group.file,
                group=group.name,
                limit=group.limit,
                generator_url=options.generator_url(self.rule.expression.text),
                writes=self.is_read,
            )

    @property
    def offset_ms(self) -> int:
        """The query offset."""
        return self.options.offset_of(self.group)

    def run(
        self, times_ms: Int64Array, queryable: Queryable, collect: Collect | None = None
    ) -> RuleOutput:
        """Evaluate at every time, int64[T], increasing and after all earlier ones."""
        parts = evaluate_rule(self.rule, times_ms, self.offset_ms, queryable, self.options)
        if self.context is not None:
            ask = partial(query_at, queryable, self.options)
            self.state, output = watch(
                self.context, self.offset_ms, self.state, parts, collect, ask
            )
        elif not isinstance(self.rule, AlertingRule):
            limit = self.group.limit
            self.naming = self.naming or Naming(self.rule)
            self.state, output = record(
                self.rule, limit, self.offset_ms, self.state, parts, self.naming
            )
        return output


class GroupRunner:
    """Evaluates a group's rules in order, one time after another.

    `state` is what an earlier run or an earlier version of the rules left (see `after_downtime`);
    state follows rule name and labels.
    """

    def __init__(
        self, group: Group, options: GroupOptions, state: GroupState | None = None
    ) -> None:
        self.group = group
        self.options = options
        self.interval_ms = options.interval_of(group)
        adopted = adopt(group, state)
        self._last_evaluation_ms = adopted.last_evaluation_ms
        self._departed = adopted.departed
        self._stale = adopted.stale
        self._keys: tuple[RuleKey, ...] = rule_keys(group.rules)
        self.runners = tuple(
            RuleRunner(rule, group, options, adopted.rules.get(key, RuleState()))
            for rule, key in zip(group.rules, self._keys, strict=True)
        )
        self._status = [RuleStatus(rule) for rule in group.rules]
        self._common: CommonParts | None = None

    def share(self, common: CommonParts) -> None:
        """Compute once what rules have in common, those of other groups included."""
        self._common = common
        for runner in self.runners:
            runner.options = common.into(self.options)

    @property
    def state(self) -> GroupState:
        """Everything that the next evaluation depends on, to be saved."""
        rules = {key: runner.state for key, runner in zip(self._keys, self.runners, strict=True)}
        return GroupState(
            self.group.file,
            self.group.name,
            self._last_evaluation_ms,
            rules,
            self._departed,
            self._stale,
        )

    def restore(self, state: GroupState) -> None:
        """Go back to a state that `state` gave: an evaluation that was not committed never was."""
        for key, runner in zip(self._keys, self.runners, strict=True):
            runner.state = state.rules[key]
        self._last_evaluation_ms = state.last_evaluation_ms
        self._departed, self._stale = state.departed, state.stale

    @property
    def statuses(self) -> tuple[RuleStatus, ...]:
        """One per rule, in order."""
        return tuple(
            replace(status, alerts=tuple(runner.state.alerts.values()))
            for status, runner in zip(self._status, self.runners, strict=True)
        )

    @property
    def template_errors_total(self) -> int:
        """Templates that could not be expanded since the runner was made."""
        contexts = [runner.context for runner in self.runners]
        return sum(context.templates.errors_total for context in contexts if context is not None)

    def is_due(self, time_ms: int) -> bool:
        """Whether the group is evaluated at `time_ms`: a multiple of its interval since 1970."""
        return time_ms % self.interval_ms == 0

    def evaluate(
        self, time_ms: int, store: SampleStore, events: EventSource | None = None
    ) -> GroupEvaluation:
        """Evaluate all rules at `time_ms`; later ones see what earlier ones wrote.

        What is written goes into `store` at once and is part of the result. No failure of a rule
        is raised: it is in the result and in `statuses`.
        """
        if self._common is not None:
            self._common.at(time_ms)
        departed = settle_departed(self._departed, time_ms)
        samples: list[Sample] = []
        transitions = list(departed)
        failures: list[RuleFailure] = []
        warnings: dict[str, None] = {}
        times_ms = np.array([time_ms], dtype=np.int64)
        for index, runner in enumerate(self.runners):
            started = time.perf_counter()
            collect = None
            if events is not None:
                collect = partial(runner.evidence.collect, queryable=store, events=events)
            output = _run_guarded(runner, times_ms, store, collect)
            samples += self._write(store, output)
            if output.series and self._common is not None:
                self._common.written(runner.rule)
            transitions += output.transitions
            failures += output.failures
            warnings.update(output.warnings)
            error = output.failures[-1].message if output.failures else ""
            seconds = time.perf_counter() - started
            self._status[index] = RuleStatus(
                runner.rule, "err" if error else "ok", error, time_ms, seconds
            )
        removed = self._mark_removed(time_ms, store, samples)
        if removed and self._common is not None:
            self._common.clear()
        samples += removed
        self._last_evaluation_ms = time_ms
        self._departed, self._stale = (), frozenset()
        return GroupEvaluation(
            time_ms, tuple(samples), tuple(transitions), tuple(failures), tuple(warnings)
        )

    @staticmethod
    def _write(store: SampleStore, output: RuleOutput) -> list[Sample]:
        """At one time every series holds one sample."""
        if not output.series:
            return []
        timestamp_ms = int(output.series[0].timestamps_ms[0])
        labels = [series.labels for series in output.series]
        values = np.concatenate([series.values for series in output.series])
        store.append_samples(timestamp_ms, labels, values)
        return [Sample(own, timestamp_ms, value) for own, value in zip(labels, values, strict=True)]

    def _mark_removed(
        self, time_ms: int, store: SampleStore, written: list[Sample]
    ) -> list[Sample]:
        """Staleness markers for the series of rules that are gone."""
        labels = sorted(self._stale.difference(sample.labels for sample in written))
        if not labels:
            return []
        timestamp_ms = time_ms - self.options.offset_of(self.group)
        store.append_samples(timestamp_ms, labels, np.full(len(labels), STALE_NAN))
        return [Sample(own, timestamp_ms, float(STALE_NAN)) for own in labels]


def _run_guarded(
    runner: RuleRunner, times_ms: Int64Array, store: SampleStore, collect: Collect | None
) -> RuleOutput:
    """Evaluate at one time; a fault of ours fails this rule and leaves the others running."""
    try:
        return runner.run(times_ms, store, collect)
    except Exception as error:
        LOGGER.exception("rule %s: internal error", runner.rule.name)
        failure = RuleFailure(runner.rule.name, int(times_ms[0]), fault(error))
        return RuleOutput(failures=[failure], evaluations=1)


def settle_departed(departed: Sequence[Alert], time_ms: int) -> tuple[Alert, ...]:
    """The owed resolutions, resolved now."""
    return tuple(
        replace(alert, state=AlertState.RESOLVED, resolved_at_ms=time_ms) for alert in departed
    )


def retire(state: GroupState, time_ms: int, store: SampleStore) -> GroupEvaluation:
    """Settle a group that no rule file has any more: its alerts resolve, its series go stale."""
    gone = disband(state)
    labels = sorted(gone.stale)
    if labels:
        store.append_samples(time_ms, labels, np.full(len(labels), STALE_NAN))
    samples = tuple(Sample(own, time_ms, float(STALE_NAN)) for own in labels)
    return GroupEvaluation(time_ms, samples, settle_departed(gone.departed, time_ms))
