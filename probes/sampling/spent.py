"""From samples to CPU time, with an error bound. Pure."""

from __future__ import annotations

from typing import NamedTuple

from probes.budget.bounds import bounded_mean


class Spent(NamedTuple):
    """Seconds of CPU time in a function itself, and how far off that may be at 95 %."""

    seconds: float
    bound: float


def spent(cpu_seconds: float, inside: int, samples: int) -> Spent:
    """What a process spent in a function, of `cpu_seconds` in which it was sampled so often.

    The share of samples that were inside estimates the share of time. Its bound is Hoeffding's for
    independent samples that are 0 or 1 (bounds.py), which never has less than the binomial law.
    They are independent as long as the load does not keep in step with the clock. CPU time comes
    from the scheduler, so a sample that the kernel left out costs precision and no bias. Without
    a sample nothing is known, and the bound is all of the time.
    """
    if samples <= 0:
        return Spent(0.0, max(0.0, cpu_seconds))
    share = min(1.0, inside / samples)
    half = bounded_mean(share, 0.0, 1.0, samples)
    return Spent(cpu_seconds * share, cpu_seconds * half)
