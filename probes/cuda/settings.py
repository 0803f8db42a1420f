"""What `probes: cuda:` may hold."""

from __future__ import annotations

from pydantic import Field

from engine.config.model import Section
from engine.config.quantities import Duration, Interval
from probes.budget.settings import BudgetConfig


class CudaSettings(Section):
    """`runtime`, `driver`: which API is probed. `slow_call`: from which duration on a call is an
    event, 0s: never. The limits size the kernel's tables, see program.bpf.c and words/calls.h.
    """  # noqa: D205 - one sentence

    budget: BudgetConfig = BudgetConfig()
    runtime: bool = True
    driver: bool = True
    slow_call: Duration = Interval(100)
    allocations_limit: int = Field(default=65_536, strict=True, ge=1)
    held_limit: int = Field(default=2_048, strict=True, ge=1)
    threads_limit: int = Field(default=16_384, strict=True, ge=1)
    totals_limit: int = Field(default=16_384, strict=True, ge=1)
    processes_limit: int = Field(default=8_192, strict=True, ge=1)
    files_limit: int = Field(default=256, strict=True, ge=1)

    def defines(self) -> dict[str, int]:
        """As the program names them."""
        return {
            "ALLOCATIONS_LIMIT": self.allocations_limit,
            "HELD_LIMIT": self.held_limit,
            "SW_CALL_THREADS": self.threads_limit,
            "SW_CALL_TOTALS": self.totals_limit,
            "SW_CALL_PROCESSES": self.processes_limit,
        }
