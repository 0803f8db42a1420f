"""What keeps an overhead from being measured."""

from __future__ import annotations

from rules.errors import StallwatchError


class OverheadError(StallwatchError):
    """The measurement cannot be made, or would mean nothing."""
