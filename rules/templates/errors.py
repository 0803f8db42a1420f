"""What goes wrong in a template."""

from __future__ import annotations

from rules.errors import StallwatchError
from rules.source import Span


class TemplateError(StallwatchError):
    """A template cannot be read or expanded; `span` is the place in its text."""

    def __init__(self, message: str, span: Span | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.span = span or Span(0, 1)
        self.hint = hint
