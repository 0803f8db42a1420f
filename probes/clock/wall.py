"""Kernel time to wall time.

BPF programs stamp with CLOCK_MONOTONIC (bpf_ktime_get_ns), which has no date and never steps. The
difference to CLOCK_REALTIME is what an administrator, NTP or a leap second changes, so it is kept
as it was over the last minutes: an event is given the date that the clock showed when it happened,
not the one that it shows when the event is read.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# A clock that is slewed moves by 0.5 ms a second at most (adjtimex(2)); looked at twice a second,
# anything beyond is a step.
STEP_NS = 10_000_000
# What is kept: twice a second for over ten minutes. Events are read within seconds.
MAX_OFFSETS = 1_500
_TRIES = 5


def read_offset_ns() -> tuple[int, int]:
    """(monotonic now, CLOCK_REALTIME minus CLOCK_MONOTONIC), in nanoseconds.

    The wall clock is read between two readings of the monotonic one; of a few tries the one in
    which least time passed is taken, so that being put aside in between does not count.
    """
    tries = []
    for _ in range(_TRIES):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        tries.append((after - before, after, wall - (before + after) // 2))
    _, now, offset = min(tries)
    return now, offset


class WallClock:
    """The offset over the last minutes. Any thread may ask; one thread observes.

    `steps`: how often the wall clock jumped since the first look.
    """

    def __init__(self, read: Callable[[], tuple[int, int]] = read_offset_ns) -> None:
        self._read = read
        self._offsets: deque[tuple[int, int]] = deque(maxlen=MAX_OFFSETS)
        self._lock = threading.Lock()
        self.steps = 0

    def observe(self) -> int:
        """Look at both clocks now; the offset in nanoseconds."""
        now, offset = self._read()
        with self._lock:
            if self._offsets and abs(offset - self._offsets[-1][1]) > STEP_NS:
                self.steps += 1
            self._offsets.append((now, offset))
        return offset

    def unix_ms(self, monotonic_ns: int) -> int:
        """The wall time of a kernel time, in unix milliseconds.

        By the newest look that is not later; what happened before the first look is given its
        offset, and what happened after the last one that of now.
        """
        with self._lock:
            newest = self._offsets[-1] if self._offsets else None
        if newest is None or newest[0] < monotonic_ns:
            self.observe()
        with self._lock:
            chosen = self._offsets[0][1]
            for at, offset in reversed(self._offsets):
                if at <= monotonic_ns:
                    chosen = offset
                    break
        return (monotonic_ns + chosen) // 1_000_000


_clock = WallClock()


def observe() -> int:
    """Look at both clocks of this node; the offset in nanoseconds."""
    return _clock.observe()


def unix_ms(monotonic_ns: int) -> int:
    """See `WallClock.unix_ms`, of this node."""
    return _clock.unix_ms(monotonic_ns)


def steps() -> int:
    """How often this node's wall clock jumped since the agent looked first."""
    return _clock.steps
