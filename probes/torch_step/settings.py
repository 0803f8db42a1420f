"""What `probes: torch_step:` may hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.config.model import Section
from probes.budget.settings import BudgetConfig


class StepSettings(Section):
    """See README.md; a default suits a node with 64 ranks.

    steps_from: which mark counts as a step. marker_libraries: beginnings of the names of libraries
    or programs that may have a function `stallwatch_step`. period: whether a job that marks no
    steps is searched for a period; period_window: among how many of its last collectives. budget:
    what the probe may take from a process; its `ladder` is not used.
    """

    steps_from: Literal["auto", "marker", "ddp", "optimizer"] = "auto"
    marker_libraries: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    budget: BudgetConfig = BudgetConfig()
    period: bool = True
    period_window: Annotated[int, Field(strict=True, ge=24, le=8192)] = 1024
    threads_limit: Annotated[int, Field(strict=True, ge=1)] = 4096
    collectives_pages: Annotated[int, Field(strict=True, ge=1)] = 64
    files_limit: Annotated[int, Field(strict=True, ge=1)] = 256
