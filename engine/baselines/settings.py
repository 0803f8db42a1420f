"""What all baselines of one set of data have in common; kept in the recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.baselines.anomaly.settings import DEFAULT_LEARNING, Learning
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class BaselineSettings:
    """How baselines learn; times are milliseconds of data time.

    `resolution_ms`: the grid on which an argument that is no plain selector is evaluated. `ttl_ms`:
    how long an element without a point is remembered. `max_series`: how many elements one baseline
    remembers. `learning`: what becomes of an element's baseline while it is abnormal.
    """

    resolution_ms: int = 10_000
    ttl_ms: int = 7 * _DAY_MS
    max_series: int = 10_000
    learning: Learning = DEFAULT_LEARNING

    def to_json(self) -> dict[str, int]:
        """As a recording keeps it."""
        return {
            "resolution_ms": self.resolution_ms,
            "ttl_ms": self.ttl_ms,
            "max_series": self.max_series,
            "pause": int(self.learning.pause),
            "accept_points": self.learning.accept_points,
        }

    @classmethod
    def of_json(cls, row: Mapping[str, object]) -> BaselineSettings:
        """What a recording kept; what it does not say, or not as a number, is as always."""
        known = cls().to_json()
        for name in known:
            given = row.get(name)
            if isinstance(given, int) and (given > 0 or name == "pause"):
                known[name] = given
        learning = Learning(bool(known["pause"]), known["accept_points"])
        return cls(known["resolution_ms"], known["ttl_ms"], known["max_series"], learning)
