"""The numbers of the model: few, in points, and the same for every metric."""

from __future__ import annotations

from typing import Final

from rules.slotted import dataclass

# No score before so many points.
WARM_POINTS: Final = 150
# Points after an onset in which no other is told, unless it is so many times as strong.
COOL_DOWN_POINTS: Final = 40
STRONGER: Final = 3.0

# Points over which the level and the spread of the moment are taken, and those of the long run.
SHORT_POINTS: Final = 8
LONG_POINTS: Final = 1000
# Points before the moment is compared with the long run.
FIRST_POINTS: Final = 11
# A record is held for so many points and then loses this share of itself with each.
HOLD_POINTS: Final = 1000
FADE: Final = 7e-4
# Points before a shape is compared with its record: early shapes are all unlike each other.
SHAPE_POINTS: Final = 600
# Days on which an hour was seen before its range counts.
KNOWN_DAYS: Final = 4

# A record is broken when it is exceeded by a tenth; one of a pattern (hour of the day, shape),
# which is learnt from fewer examples, by three tenths.
VALUE_MARGIN: Final = 1.1
PATTERN_MARGIN: Final = 1.3
# No departure counts that is less than this share of the range of values, or of the level itself:
# the second is what rounding leaves of a constant.
LEAST_OF_RANGE: Final = 0.05
LEAST_OF_LEVEL: Final = 1e-9
# A departure that is infinitely many times its record counts as this many.
LARGEST_RATIO: Final = 1e9
# Values beyond this count as this, so that their squares stay finite.
LARGEST_VALUE: Final = 1e150


@dataclass(frozen=True, slots=True)
class Learning:
    """What becomes of the baseline while a series is abnormal.

    With `pause` the level and the hours do not learn from an onset on, until values are back in the
    band that was expected then, or until `accept_points` points have passed: what lasts that long
    is the new normal. Without, they always learn.
    """

    pause: bool = True
    accept_points: int = 120


DEFAULT_LEARNING: Final = Learning()
