"""The error of an expression that is well-formed but cannot be evaluated on the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.errors import StallwatchError

if TYPE_CHECKING:
    from rules.source import Span

SAME_LABELSET = "vector cannot contain metrics with the same labelset"
TOO_MANY_SAMPLES = "query processing would load too many samples into memory in query execution"


class EvaluationError(StallwatchError):
    """An evaluation failed. `span` is the guilty part of the expression, if one is known."""

    def __init__(self, message: str, span: Span | None = None) -> None:
        super().__init__(message)
        self.span = span
