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
        # The named template that `span` is a place in; "": the one that was run.
        self.within = ""

    def located(self, text: str) -> str:
        """The message with the piece of the template that it is about, as Prometheus words it."""
        piece = " ".join(text[self.span.start : self.span.end].split())[:60]
        return f"at <{piece}>: {self.message}" if piece else self.message
