"""At most so many messages in a while: who has to wait, and what was held back meanwhile. Pure.

A group that has to wait stays as it was: at one of its next ticks it tells all that has come up by
then. What it would have said meanwhile is worked out all the same, and counted.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from engine.timestamps import format_rfc3339
from rules.durations import format_duration
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from notifiers.dispatch.deduplication import News
    from notifiers.dispatch.log import Key, LogEntry
    from notifiers.dispatch.message import Addressee, Message

# Where messages say it; never part of what an alert is known by.
ANNOTATION = "held_back"
MOST_NAMES = 10


@dataclass(frozen=True, slots=True)
class RateLimit:
    """No more than `messages` within any `per_ms`."""

    messages: int
    per_ms: int


@dataclass(frozen=True, slots=True)
class Tally:
    """What was held back and not said yet: messages, since when, and names of their alerts."""

    messages: int = 0
    since_ms: int = 0
    names: frozenset[str] = frozenset()

    def words(self, limit: RateLimit, waiting: int) -> str:
        """`12 messages since 2026-11-02T12:00:30Z, at most 20 in 1h: GpuIdle; 3 groups wait`."""
        names = sorted(self.names)
        more = [f"and {len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
        said = (
            f"{self.messages} {'message' if self.messages == 1 else 'messages'} since "
            f"{format_rfc3339(self.since_ms)}, at most {limit.messages} in "
            f"{format_duration(limit.per_ms)}: {', '.join([*names[:MOST_NAMES], *more])}"
        )
        groups = "group waits" if waiting == 1 else "groups wait"
        return f"{said}; {waiting} {groups}" if waiting else said


@dataclass(slots=True)
class Budget:
    """Of one integration. `sent_ms`: its messages within the limit's time. `waiting`: by key of a
    group, what the log would have if nothing were held back; who waits longest is first.
    """  # noqa: D205 - one sentence

    sent_ms: list[int] = field(default_factory=list)
    waiting: dict[str, LogEntry] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    held_total: int = 0

    def allows(self, group_key: str, limit: RateLimit, now_ms: int) -> bool:
        """Whether a group may speak: there is room for it behind all that wait longer."""
        # A time in the future: the clock was set back.
        self.sent_ms = [each for each in self.sent_ms if now_ms - limit.per_ms < each <= now_ms]
        room = max(0, limit.messages - len(self.sent_ms))
        return len(self.waiting) < room or group_key in islice(self.waiting, room)


class Limiter:
    """The budgets of integrations. `limits`: of those that have one.

    `changed`: since `saved`, tallies by integration, and by (integration, group key) who waits.
    """

    def __init__(self, addressees: Mapping[str, Sequence[Addressee]]) -> None:
        """`addressees`: by receiver."""
        # In this order, which is that in which groups wait.
        self.changed: dict[str | Key, None] = {}
        self.budgets: dict[str, Budget] = {}
        self.limits: dict[str, RateLimit] = {
            to.key: to.limit for each in addressees.values() for to in each if to.limit is not None
        }

    def restore(self, budgets: Mapping[str, Budget]) -> None:
        """What an earlier process knew."""
        self.budgets.update(budgets)

    def budget(self, integration: str) -> Budget:
        """Of an integration; an empty one before its first message."""
        return self.budgets.setdefault(integration, Budget())

    def hold(
        self, integration: str, group_key: str, news: News, names: Iterable[str], now_ms: int
    ) -> None:
        """A group has to wait; without a limit it would have told this."""
        own = self.budget(integration)
        self.changed[integration, group_key] = None
        own.waiting[group_key] = news.entry
        if news.silent:
            return
        self.changed[integration] = None
        before = own.tally
        since_ms = before.since_ms if before.messages else now_ms
        own.tally = Tally(before.messages + 1, since_ms, before.names.union(names))
        own.held_total += 1

    def sent(self, integration: str, limit: RateLimit, message: Message, now_ms: int) -> Message:
        """The group of a message need not wait; it says what was held back."""
        own = self.budget(integration)
        self.release(integration, message.group_key)
        own.sent_ms.append(now_ms)
        tally, own.tally = own.tally, Tally()
        if not tally.messages:
            return message
        self.changed[integration] = None
        words = tally.words(limit, len(own.waiting))
        alerts = (
            replace(each, annotations={**each.annotations, ANNOTATION: words})
            for each in message.alerts
        )
        return replace(message, alerts=tuple(alerts))

    def release(self, integration: str, group_key: str) -> None:
        """A group has nothing to say any more."""
        own = self.budgets.get(integration)
        if own is not None and own.waiting.pop(group_key, None) is not None:
            self.changed[integration, group_key] = None

    def expected(self, integration: str, group_key: str) -> LogEntry | None:
        """What the log would have of a group that waits; None: it does not wait."""
        own = self.budgets.get(integration)
        return None if own is None else own.waiting.get(group_key)

    def holds(self, group_key: str) -> bool:
        """Whether anybody has to wait for what the group has to say."""
        return any(group_key in own.waiting for own in self.budgets.values())

    def sweep(self, alive: AbstractSet[str]) -> None:
        """Groups that are gone wait for nothing."""
        for integration, own in self.budgets.items():
            for key in own.waiting.keys() - alive:
                self.release(integration, key)

    def all_changed(self) -> None:
        """Nothing of it is on the disk any more."""
        for integration, own in self.budgets.items():
            self.changed[integration] = None
            for group_key in own.waiting:
                self.changed[integration, group_key] = None

    def saved(self) -> None:
        """What changed is on the disk."""
        self.changed.clear()
