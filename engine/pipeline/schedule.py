"""When each rule group is due: multiples of its interval since the epoch (SEMANTICS line 2)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Slot:
    """One time of one group. `skipped` are earlier times that will not be evaluated any more."""

    group: int
    time_ms: int
    skipped: tuple[int, ...] = ()


@dataclass(slots=True)
class Schedule:
    """The next time of each group, by its position in file order.

    A slot is ready once the flush that it must see is in the store: the last one at or before it.
    `start_ms` is where it begins: slots at or before it are somebody else's. `after_ms`: per group
    where it begins instead, None for `start_ms`.
    """

    intervals_ms: tuple[int, ...]
    flush_interval_ms: int
    start_ms: int
    after_ms: tuple[int | None, ...] = ()
    _next_ms: list[int] = field(init=False)

    def __post_init__(self) -> None:
        after_ms = self.after_ms or (None,) * len(self.intervals_ms)
        starts = (self.start_ms if own is None else own for own in after_ms)
        self._next_ms = [
            start - start % interval + interval
            for start, interval in zip(starts, self.intervals_ms, strict=True)
        ]

    def reached_ms(self, group: int) -> int:
        """The last time of a group that was given out or passed over."""
        return self._next_ms[group] - self.intervals_ms[group]

    def ready(self, now_ms: int, flushed_ms: int) -> list[Slot]:
        """Slots to evaluate now, by time and then in file order, and the schedule moves on.

        A group that has fallen behind is evaluated at its latest ready time only; the times
        before it are skipped and named.
        """
        slots = []
        for group, interval in enumerate(self.intervals_ms):
            times = []
            while self._is_ready(self._next_ms[group], now_ms, flushed_ms):
                times.append(self._next_ms[group])
                self._next_ms[group] += interval
            if times:
                slots.append(Slot(group, times[-1], tuple(times[:-1])))
        return sorted(slots, key=lambda slot: (slot.time_ms, slot.group))

    def _is_ready(self, time_ms: int, now_ms: int, flushed_ms: int) -> bool:
        needed = time_ms - time_ms % self.flush_interval_ms
        return time_ms <= now_ms and needed <= flushed_ms
