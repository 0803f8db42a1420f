"""How much longer everything takes a process because others want its CPU.

A trap that takes 10 us of CPU takes 40 us of the clock where three others run on that CPU in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from probes.budget.shares import PROC

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from engine.readings import Process

# By thread: nanoseconds on a CPU, and nanoseconds in which it could have been and was not.
Turns: TypeAlias = "Mapping[int, tuple[int, int]]"


def turns(process: Process, threads: Iterable[int] = (), proc: Path = PROC) -> Turns:
    """Of some threads of a process, and of its main one.

    The first two numbers of /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst).
    A thread that is gone, or of which the kernel does not say, is left out.
    """
    found: dict[int, tuple[int, int]] = {}
    for tid in {process.pid, *threads}:
        path = proc / f"{process.pid}/task/{tid}/schedstat"
        try:
            ran, waited, *_ = path.read_text(encoding="ascii").split()
        except (OSError, ValueError):
            continue
        found[tid] = int(ran), int(waited)
    return found


def stretch(before: Turns, after: Turns) -> float:
    """Seconds by the clock that a second on the CPU took between two times; 1: nobody waited."""
    both = before.keys() & after.keys()
    ran, waited = (sum(after[tid][each] - before[tid][each] for tid in both) for each in (0, 1))
    return 1.0 + max(waited, 0) / ran if ran > 0 else 1.0
