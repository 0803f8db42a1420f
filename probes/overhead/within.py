"""Probes on and off in turns, beside one command that goes on.

Two pairs with the probes (off on, on off), then two without (off off, off off), and again: order
alternates, so a machine that gets slower does not count against either kind. The pairs without
show what the method and the machine make of no effect at all.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Protocol

from probes.overhead.pairs import Ratio, Slice, compare, step_cpu_seconds, step_seconds
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

# Attaching takes 10 to 20 ms, detaching up to 300 ms; left out at least.
TRANSITION_SECONDS = 1.0


class Probes(Protocol):
    """What is switched on and off."""

    def start(self) -> None:
        """On; returns when everything is attached."""
        ...

    def stop(self) -> None:
        """Off."""
        ...

    def measure(self, seconds: float) -> None:
        """Let a slice pass."""
        ...


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbouring slices. `idle`: the probes were off in both."""

    idle: bool
    first: Slice
    second: Slice


@dataclass(slots=True)
class Turns:
    """The slices of a run. Starting and stopping take so many seconds whatever they take, in the
    pairs without probes too: a slice that began when the start was done would begin, on a busy
    machine, when a burst was over.
    """  # noqa: D205 - one sentence

    probes: Probes
    seconds: float
    start_seconds: float
    stop_seconds: float
    cpu_seconds: Callable[[], float]
    pairs: list[Pair] = field(default_factory=list)

    def run(self, count: int, tell: Callable[[int], None]) -> None:
        """Make `count` pairs of each kind; those of an interrupted run stay in `pairs`."""
        for round_ in range((count + 1) // 2):
            for idle in (False, True) if round_ % 2 == 0 else (True, False):
                self._four(idle=idle)
            tell(2 * (round_ + 1))

    def _four(self, *, idle: bool) -> None:
        slices: list[Slice] = []
        for second in (False, True, True, False):
            if second and not slices[-1].treated:
                take(self.start_seconds, _nothing if idle else self.probes.start)
            elif slices and not second:
                take(self.stop_seconds, self.probes.stop)
            start, before = time.monotonic(), self.cpu_seconds()
            self.probes.measure(self.seconds)
            spent = self.cpu_seconds() - before
            slices.append(Slice(start, time.monotonic(), second, spent))
            if len(slices) == 2:
                self.pairs.append(Pair(idle, *slices))
        self.pairs.append(Pair(idle, slices[3], slices[2]))


def take(seconds: float, action: Callable[[], None]) -> None:
    """Do something; return a multiple of `seconds` later."""
    began = time.monotonic()
    action()
    taken = time.monotonic() + TRANSITION_SECONDS - began
    time.sleep(math.ceil(taken / seconds) * seconds - taken + TRANSITION_SECONDS)


def step_ratio(
    pairs: Sequence[Pair], ends: Sequence[NDArray[np.float64]], *, idle: bool, cpu: bool
) -> Ratio | None:
    """Of the median steps, or of the CPU time of a step; None without a pair that has steps."""
    measure = step_cpu_seconds if cpu else step_seconds
    found = []
    for pair in pairs:
        if pair.idle == idle:
            try:
                found.append((measure(pair.first, ends), measure(pair.second, ends)))
            except (ValueError, ZeroDivisionError):
                continue  # steps stopped meanwhile
    return compare(found) if found and all(min(each) > 0 for each in found) else None


def _nothing() -> None:
    pass
