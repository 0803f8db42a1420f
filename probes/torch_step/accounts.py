"""From the kernel's per-thread sums to what each process did since the last look. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from probes.torch_step.thread import (
    BACKWARD,
    DDP,
    FLIGHTS,
    MARKER,
    MARKERS,
    NO_STEPS,
    NO_WAITS,
    NVTX,
    OPTIMIZER,
    RANGES,
    REDUCER,
    WAITS,
    Steps,
    ThreadState,
)
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from probes.torch_step.thread import Nanoseconds

    Key: TypeAlias = tuple[Hashable, Hashable]
ThreadT = TypeVar("ThreadT", bound="Hashable")


# What each mark is told by, and what all waits need.
MARKED_BY = {MARKER: {RANGES, NVTX, MARKERS}, DDP: {REDUCER}, OPTIMIZER: {RANGES}}
WAITED_BY = frozenset({REDUCER, WAITS, FLIGHTS})


@dataclass(slots=True)
class Interval:
    """What a process did since the last look.

    `op_ns`: waited, by place in OPERATIONS; its sum is never more than the time that passed.
    `flight_ns`: how long threads of Gloo waited for data of other ranks, all together.
    """

    hits: int = 0
    backwards: int = 0
    op_ns: tuple[Nanoseconds, ...] = NO_WAITS
    steps: tuple[Steps, ...] = NO_STEPS
    flight_ns: Nanoseconds = 0

    @property
    def wait_ns(self) -> Nanoseconds:
        """Waited, in any operation."""
        return sum(self.op_ns)

    def bound(self, longest: Nanoseconds) -> None:
        """Scale the waits so that they are `longest` together, if they are more."""
        total = self.wait_ns
        if total > longest:
            self.op_ns = tuple(part * longest // total for part in self.op_ns)

    def leave_out(self, unseen: frozenset[str]) -> None:
        """Drop what depends on groups that were not watched all the time: it is not all there is.

        Hits stay, as each is accounted for.
        """
        if unseen & WAITED_BY:
            self.op_ns = NO_WAITS
        if BACKWARD in unseen:
            self.backwards = 0
        self.steps = tuple(
            Steps() if unseen & MARKED_BY[mark] else each for mark, each in enumerate(self.steps)
        )

    def cut_to_flight(self) -> None:
        """Keep of the waits what Gloo's threads waited for data, those of steps in proportion."""
        before = self.wait_ns
        self.bound(self.flight_ns)
        self.steps = tuple(
            replace(each, wait_ns=each.wait_ns * self.wait_ns // before) if before else each
            for each in self.steps
        )


class Accounts:
    """The last seen state of every thread, by process and thread, whatever these are known by.

    Waits of one thread do not overlap: the kernel times the outermost only. Threads of one process
    that wait at the same time would count twice, so that a process' wait is bounded by the time
    that passed. In a process that uses Gloo it is also bounded by the time in which Gloo's threads
    waited for data: while they work themselves, reducing or stuck in a slow send, the rank does
    not wait for others, though its main thread waits for them.
    """

    def __init__(self) -> None:
        self._seen: dict[Key, ThreadState] = {}
        self._waited: dict[Key, tuple[Nanoseconds, ...]] = {}
        self._flown: dict[Key, Nanoseconds] = {}
        self._flying: set[Hashable] = set()
        self._settled: dict[Hashable, Nanoseconds] = {}
        self.abandoned_total = 0
        self._watched_since: Nanoseconds = 0
        # Since when what may have ended unseen was open: a wait, a wait for data; 0: none.
        self._stale: dict[Key, tuple[Nanoseconds, Nanoseconds]] = {}

    def mend_gap(self, now: Nanoseconds) -> None:
        """Something was not watched until now: waits that were open may have ended unseen."""
        self._watched_since = now
        self._stale = {
            key: (state.open_since, state.flight_since)
            for key, state in self._seen.items()
            if state.open_since or state.flight_since
        }

    def open_process(self, who: Hashable, now: Nanoseconds) -> None:
        """A process is watched from now on."""
        self._settled.setdefault(who, now)

    def close_process(self, who: Hashable) -> None:
        """A process ended; its threads were closed."""
        self._settled.pop(who, None)
        self._flying.discard(who)

    def length(self, who: Hashable, now: Nanoseconds) -> Nanoseconds:
        """Since the process was settled last."""
        return now - self._settled.get(who, now)

    def settle(
        self,
        who: Hashable,
        threads: Mapping[ThreadT, ThreadState],
        ended: frozenset[ThreadT],
        now: Nanoseconds,
    ) -> Interval:
        """What the process did since its last settlement.

        `threads`: by thread, as read from the kernel after `now` was taken. Those `ended` have
        their open wait end where it was last counted, and are forgotten: their record must be
        deleted.
        """
        interval = Interval()
        for thread, state in threads.items():
            self._add(interval, (who, thread), state, now if thread not in ended else None)
            if thread in ended:
                self._seen.pop((who, thread), None)
                self._waited.pop((who, thread), None)
                self._flown.pop((who, thread), None)
                self._stale.pop((who, thread), None)
        if len(threads) > 1 and who in self._settled:
            interval.bound(self.length(who, now))
        if interval.flight_ns:
            self._flying.add(who)
        if who in self._flying:
            interval.cut_to_flight()
        if who in self._settled:
            self._settled[who] = now
        return interval

    def _add(
        self, interval: Interval, key: Key, state: ThreadState, now: Nanoseconds | None
    ) -> None:
        before = self._seen.get(key, ThreadState())
        interval.hits += state.hits - before.hits
        interval.backwards += state.backwards - before.backwards
        interval.steps = tuple(
            total + (new - old)
            for total, new, old in zip(interval.steps, state.steps, before.steps, strict=True)
        )
        self.abandoned_total += state.abandoned - before.abandoned
        # A read that raced with an exit may show less than the last one did; it catches up.
        counted = self._waited.get(key, NO_WAITS)
        seen = state.op_ns if now is None else state.waited(now, self._watched_since)
        waited = tuple(map(max, counted, seen))
        before_flight = self._flown.get(key, 0)
        flown = max(
            before_flight, state.flight_ns if now is None else state.flown(now, self._watched_since)
        )
        if self._is_stale(key, state):  # told of from here on
            waited, flown = state.op_ns, state.flight_ns
        else:
            interval.op_ns = tuple(
                total + new - old
                for total, new, old in zip(interval.op_ns, waited, counted, strict=True)
            )
            interval.flight_ns += flown - before_flight
        self._seen[key], self._waited[key], self._flown[key] = state, waited, flown

    def _is_stale(self, key: Key, state: ThreadState) -> bool:
        """Whether a wait of before a gap is open still, or was until the last look.

        The kernel takes the next entry or exit for its end, and the gap for a part of it.
        """
        wait, flight = self._stale.get(key, (0, 0))
        if not (0 < wait == state.open_since or 0 < flight == state.flight_since):
            self._stale.pop(key, None)
        return bool(wait or flight)
