"""The score from which on a point is an anomaly, in a module that is quick to import."""

from __future__ import annotations

from typing import Final

# The one threshold for every metric: an onset scores from here on, every other point below.
ANOMALY_THRESHOLD: Final = 0.5
