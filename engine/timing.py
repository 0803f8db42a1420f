"""Where a command's wall time goes: `--timing`.

Every moment belongs to one part, so that the parts add up to the process's wall time. The main
thread says which part it is in; while any thread reads data, that moment belongs to `read`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.promql.context import Options
    from engine.promql.value import Axis, Result
    from engine.rulegroup.options import Evaluate
    from engine.series import Queryable, Series
    from rules.promql.ast import Expr, Matcher

START, READ, EVALUATE, ALERT_STATE, OUTPUT = "start", "read", "evaluate", "alert_state", "output"
PARTS = (START, READ, EVALUATE, ALERT_STATE, OUTPUT)
HELP = "print one JSON line on standard error: seconds by part, and the peak memory in bytes"


class Timing:
    """Seconds of wall time by part, from now on; the first part is `start`. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._part = START
        self._readers = 0
        self._since = clock()
        self._lock = threading.Lock()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """The main thread's time belongs to a part; a part inside another one interrupts it."""
        outer = self._switch(name)
        try:
            yield
        finally:
            self._switch(outer)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Time belongs to `read`, whichever thread this is and whatever the others do."""
        self._count_reader(1)
        try:
            yield
        finally:
            self._count_reader(-1)

    def seconds(self) -> dict[str, float]:
        """Seconds of every part until now."""
        with self._lock:
            self._settle()
            return dict(self._seconds)

    def _switch(self, name: str) -> str:
        with self._lock:
            self._settle()
            outer, self._part = self._part, name
        return outer

    def _count_reader(self, change: int) -> None:
        with self._lock:
            self._settle()
            self._readers += change

    def _settle(self) -> None:
        now = self._clock()
        self._seconds[READ if self._readers else self._part] += now - self._since
        self._since = now


class TimedQueryable:
    """A Queryable whose reading is timed."""

    def __init__(self, queryable: Queryable, timing: Timing) -> None:
        self._queryable = queryable
        self._timing = timing

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """See `engine.series.Queryable`."""
        with self._timing.reading():
            return self._queryable.select(matchers, start_ms, end_ms)


def timed(evaluate: Evaluate, timing: Timing) -> Evaluate:
    """The same evaluation, timed."""

    def evaluate_timed(expr: Expr, axis: Axis, queryable: Queryable, options: Options) -> Result:
        with timing.part(EVALUATE):
            return evaluate(expr, axis, queryable, options)

    return evaluate_timed


@contextmanager
def told(*, wanted: bool) -> Iterator[Timing]:
    """A command's timing; at its end, however it ends, the line is printed if it is wanted."""
    timing = Timing()
    try:
        yield timing
    finally:
        try:
            with timing.part(OUTPUT):
                sys.stdout.flush()
        finally:
            if wanted:
                print(_line(timing), file=sys.stderr)


def _line(timing: Timing) -> str:
    seconds = timing.seconds()
    # What went before `timing` was made belongs to the start too.
    seconds[START] += max(0.0, process_age_seconds() - sum(seconds.values()))
    rounded = {name: round(value, 6) for name, value in seconds.items()}
    return json.dumps({**rounded, "peak_memory_bytes": peak_memory_bytes()})


def process_age_seconds() -> float:
    """Seconds since the process started, from the 22nd field of /proc/self/stat (proc(5))."""
    # The name of the command, in parentheses, may hold anything.
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    ticks = int(fields.rpartition(")")[2].split()[19])
    per_second = os.sysconf("SC_CLK_TCK")
    # The kernel rounds down to a tick: the middle of it is wrong by half a tick at most.
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - (ticks + 0.5) / per_second
    return max(age, time.thread_time())


def peak_memory_bytes() -> int:
    """The most memory that was resident, `VmHWM` of /proc/self/status (proc(5)).

    Not getrusage's figure: that one counts what the parent held before the program was executed.
    """
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
