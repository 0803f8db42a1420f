"""What share of a process its probes take, and how a budget is shared out among functions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.readings import Process

Name = TypeVar("Name")
TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")
# A process that sleeps has next to no CPU time to take a share of, and nothing waits for it. It
# counts as using a tenth of a core, so that 1 % of it is 1 ms a second.
LEAST_CORES = 0.1
# A process of many threads counts as one core: the calls may all come from one thread, and if that
# is the one that launches the kernels, a share of all threads' time would hide that it got slower.
MOST_CORES = 1.0


def cpu_seconds(process: Process, proc: Path = PROC) -> float | None:
    """CPU time of all threads, dead ones too: utime and stime of /proc/PID/stat (proc(5)).

    None when the process is gone, or cannot be read.
    """
    try:
        stat = (proc / str(process.pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    if int(fields[19]) != process.start_ticks:
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS


def taken_from(
    used_seconds: float | None, passed_seconds: float, least_cores: float = LEAST_CORES
) -> float:
    """The CPU seconds that a share is a share of: those used, within the least and MOST_CORES.

    Unknown use counts as the least.
    """
    least, most = least_cores * passed_seconds, MOST_CORES * passed_seconds
    return least if used_seconds is None else min(max(used_seconds, least), most)


def share_out(budget: float, wanted: Mapping[Name, float]) -> dict[Name, float]:
    """How much of a budget each may take: who wants little gets it, the rest is shared equally.

    Max-min fairness (D. Bertsekas and R. Gallager, Data Networks, section 6.5.2). An allowance
    that is not used up is larger than what was wanted.
    """
    left, waiting = budget, dict(wanted)
    allowed: dict[Name, float] = {}
    for name in sorted(wanted, key=lambda each: wanted[each]):
        fair = left / len(waiting)
        allowed[name] = fair
        left -= min(fair, waiting.pop(name))
    return allowed
