"""How long to wait before the next attempt: exponential with full jitter."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits are drawn from [0, min(cap, base * 2^(failures - 1))), in seconds.

    Full jitter (Brooker, "Exponential Backoff And Jitter", 2015): the nodes of a cluster that
    lost the same receiver do not come back in step.
    """

    base_seconds: float = 1.0
    cap_seconds: float = 60.0
    draw: Callable[[], float] = random.random

    def delay_ms(self, failures: int) -> int:
        """The wait after so many failures in a row, in milliseconds."""
        widest = min(self.cap_seconds, self.base_seconds * 2.0 ** min(failures - 1, 60))
        return round(widest * self.draw() * 1000)
