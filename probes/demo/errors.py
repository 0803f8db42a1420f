"""Why a demo cannot be played live."""

from __future__ import annotations

from rules.errors import StallwatchError


class NotHereError(StallwatchError):
    """This machine or user cannot play the demo live. `reason` and `mend`: for people."""

    def __init__(self, reason: str, mend: str = "") -> None:
        super().__init__(f"stallwatch demo: {reason}" + (f"\n    hint: {mend}" if mend else ""))
        self.reason = reason
        self.mend = mend
