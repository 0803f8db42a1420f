"""What `probes: mpi:` may hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engine.config.model import Section
from engine.config.quantities import Interval, PositiveDuration
from probes.budget.settings import BudgetConfig


class MpiSettings(Section):
    """See README.md.

    slow_init: an initialisation that takes longer is an event. without: calls that are not probed,
    by their names without MPI_ (`Send`). events: errors of one process told between two polls, the
    others are counted only.
    """

    slow_init: PositiveDuration = Interval(30_000)
    without: tuple[str, ...] = ()
    events: Annotated[int, Field(strict=True, ge=0)] = 10
    files_limit: Annotated[int, Field(strict=True, ge=1)] = 256
    budget: BudgetConfig = BudgetConfig()
