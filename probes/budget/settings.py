"""The section `budget` of a probe."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from engine.config.model import Section
from engine.config.quantities import Interval, PositiveDuration

Rung = Literal["colder", "duty", "sampled"]


class BudgetConfig(Section):
    """How much a probe may take from a process, and what is done when it takes more.

    `ratio`: share of the process's CPU time (see shares.py). `slice`: how long a function is
    watched at a time; attaching and detaching take a third of a second, so not below one second.
    `longest_period`: the longest stratum; a function that even one slice in it would overspend for
    leaves the duty cycle. `ladder`: what is tried, in order, before detaching. `calm`: how long a
    function must need no more than half of its allowance before it is watched all the time again;
    doubles with each relapse. `retry`: when a function that is not counted is looked at again;
    doubles likewise.
    """

    enabled: bool = True
    ratio: float = Field(default=0.01, gt=0, le=1)
    slice: PositiveDuration = Interval(1_000)
    longest_period: PositiveDuration = Interval(300_000)
    ladder: tuple[Rung, ...] = ("duty", "colder", "sampled")
    calm: PositiveDuration = Interval(60_000)
    retry: PositiveDuration = Interval(600_000)

    @field_validator("slice")
    @classmethod
    def _long_enough(cls, value: Interval) -> Interval:
        if value.ms < 1000:
            raise ValueError("a slice is at least 1s, because attaching and detaching take 0.3s")
        return value
