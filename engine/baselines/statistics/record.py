"""The highest value of the past, which is held for a while and then forgotten slowly."""

from __future__ import annotations

from typing import Final

# A value of so much of the record renews it: a rhythm whose peaks vary a little keeps its record.
RENEWS: Final = 0.9


class FadingRecord:
    """The largest of all values so far; it fades once none came near it for a while.

    Each value that is at least `RENEWS` of the record keeps it for `hold` values more; after that
    it loses `fade` of itself with every value. Values are not negative. This is the peak detector
    of signal processing (attack 0, hold, exponential release). No values: 0.
    """

    __slots__ = ("age", "hold", "keep", "record")

    SIZE = 2

    def __init__(self, hold: int, fade: float) -> None:
        self.hold = hold
        self.keep = 1.0 - fade
        self.record = 0.0
        self.age = 0.0

    def update(self, value: float) -> None:
        """Take a value that is at least 0."""
        record = self.record
        if self.age > self.hold:
            record *= self.keep
        if value < RENEWS * record:
            self.age += 1.0
            self.record = record
        else:
            self.age = 0.0
            self.record = max(record, value)

    def get(self) -> float:
        """The record."""
        return self.record

    def numbers(self) -> list[float]:
        """All that it knows, `SIZE` numbers."""
        return [self.record, self.age]

    def restore(self, numbers: list[float]) -> None:
        """Become what `numbers` told."""
        self.record, self.age = numbers
