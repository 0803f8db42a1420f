"""What `probes: gloo:` may hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engine.config.model import Section
from engine.config.quantities import Interval, PositiveDuration
from probes.budget.settings import BudgetConfig


class GlooSettings(Section):
    """See README.md. slow_connect: a connect that takes longer is an event."""

    slow_connect: PositiveDuration = Interval(30_000)
    files_limit: Annotated[int, Field(strict=True, ge=1)] = 256
    budget: BudgetConfig = BudgetConfig()
