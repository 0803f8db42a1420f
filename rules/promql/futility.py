"""What parses, as in Prometheus, although no evaluation of it as a rule can succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rules.promql.ast import Call, MatrixSelector
from rules.promql.duration_expressions import DurationExpressionError, durations, value_ms
from rules.promql.functions import ANCHORED_FUNCTIONS, SMOOTHED_FUNCTIONS
from rules.promql.parameters import refused
from rules.promql.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.promql.ast import Expr
    from rules.source import Span


class Failure(NamedTuple):
    """Why every evaluation fails. `ours`: Prometheus would not load it either."""

    span: Span
    message: str
    hint: str
    ours: bool = False


def failures(expr: Expr) -> Iterator[Failure]:
    """Durations without a value in an instant query, and what a function refuses.

    Of modifiers, and of parameters of our own statistics.
    """
    for node in walk(expr):
        for span, message, hint in refused(node):
            yield Failure(span, message, hint, ours=True)
        if isinstance(node, Call):
            yield from _refused_modifiers(node)
            continue
        for duration in durations(node):
            if duration.expr is None:
                continue
            try:
                value_ms(duration, signed=duration is getattr(node, "offset", None))
            except DurationExpressionError as error:
                hint = "a rule is an instant query: step() and range() are 0 in it"
                yield Failure(error.span, str(error), hint)


def _refused_modifiers(call: Call) -> Iterator[Failure]:
    for arg in call.args:
        if not isinstance(arg, MatrixSelector) or arg.selector.modifier is None:
            continue
        modifier = arg.selector.modifier
        allowed = SMOOTHED_FUNCTIONS if modifier == "smoothed" else ANCHORED_FUNCTIONS
        if call.func not in allowed:
            names = ", ".join(sorted(allowed))
            message = f"{modifier} can only be used with {names}, not with {call.func}"
            yield Failure(arg.span, message, f"remove {modifier}")
