"""When each rule group is due: multiples of its interval since the epoch (docs/semantics.md, 2)."""

from __future__ import annotations

from rules.slotted import dataclass, field


@dataclass(frozen=True, slots=True)
class Slot:
    """One time of one group. `skipped` are earlier times that will not be evaluated any more.

    A range, for a clock that leaps from 1970 to today passes over hundreds of millions.
    """

    group: int
    time_ms: int
    skipped: range = range(0)


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
        # A time needs the flush at or before it: the last flush serves until the next is due.
        served_ms = flushed_ms - flushed_ms % self.flush_interval_ms + self.flush_interval_ms - 1
        until_ms = min(now_ms, served_ms)
        for group, interval in enumerate(self.intervals_ms):
            following_ms = self._next_ms[group]
            if following_ms <= until_ms:
                latest_ms = until_ms - until_ms % interval
                slots.append(Slot(group, latest_ms, range(following_ms, latest_ms, interval)))
                self._next_ms[group] = latest_ms + interval
        return sorted(slots, key=lambda slot: (slot.time_ms, slot.group))
