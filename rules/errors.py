"""The one root of every error that stallwatch raises on purpose."""

from __future__ import annotations


class StallwatchError(Exception):
    """Something the user can mend; its text is the whole message, never a traceback."""
