"""The error of an expression that is well-formed but cannot be evaluated on the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.errors import StallwatchError

if TYPE_CHECKING:
    from rules.source import Span

SAME_LABELSET = "vector cannot contain metrics with the same labelset"
NEEDS_HISTOGRAMS = "needs native histograms"
TOO_MANY_SAMPLES = "query processing would load too many samples into memory in query execution"


class EvaluationError(StallwatchError):
    """An evaluation failed. `span` is the guilty part of the expression, if one is known."""

    def __init__(self, message: str, span: Span | None = None) -> None:
        super().__init__(message)
        self.span = span


class InvalidParameter(EvaluationError):  # noqa: N818 - says what is wrong
    """A scalar that a function of a window cannot take: the `number`th of its scalars, from 0."""

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.number = number


class NeedsNativeHistograms(EvaluationError):  # noqa: N818 - says what is missing
    """A native histogram would decide the result, and only floats are computed with."""

    def __init__(self, what: str, span: Span | None = None) -> None:
        super().__init__(f"{what} {NEEDS_HISTOGRAMS}", span)
