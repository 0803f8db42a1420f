"""What is wrong with data, where, and how to mend it."""

from __future__ import annotations

from rules.errors import StallwatchError


class DataError(StallwatchError):
    """`place: what`, then the hint. `place` is a file, `file:line` or `file: row N`."""

    def __init__(self, place: str, what: str, hint: str = "") -> None:
        self.place, self.what, self.hint = place, what, hint
        super().__init__(f"{place}: {what}" + (f"\n    hint: {hint}" if hint else ""))
