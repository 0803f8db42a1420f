"""The kernel's power-of-two buckets as a Prometheus classic histogram. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.readings import Count
from probes.functions.records import BUCKETS
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.readings import Pairs, Process
    from probes.functions.records import Total

NANOSECONDS = 1e9
# Bucket k of a duration holds up to 2^(k + FIRST_EXPONENT) s, of a value up to 4^k (calls.h).
FIRST_EXPONENT = -20
FINITE = BUCKETS - 1


def duration_bound(bucket: int) -> float:
    """The upper bound of a bucket in seconds."""
    return 2.0 ** (bucket + FIRST_EXPONENT)


def value_bound(bucket: int) -> float:
    """The upper bound of a bucket of an observed value."""
    return 4.0**bucket


@dataclass(frozen=True, slots=True)
class Buckets:
    """Which of the kernel's buckets are exported: each a series. `scale`: units of `sum` in one."""

    bounds: tuple[tuple[int, str], ...]
    scale: float

    @classmethod
    def of_durations(cls, first: int = 0, last: int = 26, step: int = 2) -> Buckets:
        """Bounds 2^(-20 + k) s, k from `first` to `last`; by default 0.95 µs to 64 s, times 4."""
        chosen = range(first, min(last, FINITE - 1) + 1, step)
        return cls(tuple((k, le(duration_bound(k))) for k in chosen), NANOSECONDS)

    @classmethod
    def of_values(cls, last: int = 20, step: int = 2) -> Buckets:
        """Bounds 4^k; by default 1 to 4^20, times 16."""
        chosen = range(0, min(last, FINITE - 1) + 1, step)
        return cls(tuple((k, le(value_bound(k))) for k in chosen), 1.0)

    def names(self, metric: str, labels: Pairs = ()) -> tuple[tuple[str, Pairs], ...]:
        """The counters of a histogram, for `Watched.metrics`: all begin with a 0."""
        rows = [(f"{metric}_bucket", (*labels, ("le", text))) for _, text in self.bounds]
        rows.append((f"{metric}_bucket", (*labels, ("le", "+Inf"))))
        return (*rows, (f"{metric}_sum", labels), (f"{metric}_count", labels))

    def counts(
        self, metric: str, process: Process | None, total: Total, labels: Pairs = ()
    ) -> Iterator[Count]:
        """What a histogram's series grew by; nothing when nothing was timed. Without weight."""
        # A look may fall between the program's additions: the rest of a call comes with the next.
        if not (total.timed or total.sum or any(total.buckets)):
            return
        below = 0
        following = 0
        for bucket, text in self.bounds:
            below += sum(total.buckets[following : bucket + 1])
            following = bucket + 1
            if below:
                pairs = (*labels, ("le", text))
                yield Count(f"{metric}_bucket", process, float(below), pairs)
        everything = float(sum(total.buckets))
        yield Count(f"{metric}_bucket", process, everything, (*labels, ("le", "+Inf")))
        yield Count(f"{metric}_sum", process, total.sum / self.scale, labels)
        yield Count(f"{metric}_count", process, everything, labels)


def le(bound: float) -> str:
    """A bound as the label `le` has it: `1.0`, `0.0009765625`, `9.5367431640625e-07`."""
    return repr(float(bound))
