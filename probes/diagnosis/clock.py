"""Whether the node's clock is disciplined: nodes that disagree cannot be put in order."""

from __future__ import annotations

from probes.clock.discipline import read_discipline
from probes.clock.probe import MEND
from probes.diagnosis.finding import Finding


def read_clock() -> Finding:
    """Ask the kernel, changing nothing."""
    try:
        clock = read_discipline()
    except OSError as error:
        return Finding("clock", "degraded", f"the kernel does not say: {error.strerror}", MEND)
    if not clock.synchronized:
        return Finding("clock", "degraded", "not synchronised", MEND)
    return Finding("clock", "ok", f"synchronised, error at most {clock.error_seconds:.3f} s")
