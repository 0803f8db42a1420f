"""What a score is made of."""

from __future__ import annotations

from rules.slotted import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """The last score of a model, and why.

    `strengths` tells for each part how many times what an onset takes its departure was: 1 is an
    onset. `part` is the strongest. `band` is (lowest, highest) of the values that were expected;
    while something abnormal goes on it is the band from before.
    """

    score: float
    part: str
    strengths: dict[str, float]
    band: tuple[float, float]
