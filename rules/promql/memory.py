"""Functions that remember: what they cannot take, and what to write in its place.

They fold the history of each element of their argument once, on a clock of their own. What would
make that history depend on who asks, or on when, is refused when a rule is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rules.promql.ast import Call, Expr, Subquery, VectorSelector
from rules.promql.duration_expressions import STEP_AND_RANGE, durations
from rules.promql.functions import FUNCTIONS_WITH_MEMORY
from rules.promql.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.source import Span

_OF_THE_QUERY: Final = frozenset({"start", "end"}) | STEP_AND_RANGE


def calls_within(expr: Expr) -> Iterator[Call]:
    """The calls of functions that remember, from the outside in."""
    for node in walk(expr):
        if isinstance(node, Call) and node.func in FUNCTIONS_WITH_MEMORY:
            yield node


def record_first(call: Call, text: str) -> str:
    """The hint for a call that stands where it cannot."""
    shown = text[call.span.start : call.span.end]
    return f"record the score first, by a rule with expr: {shown}, and use what it records here"


def faults(call: Call, text: str) -> Iterator[tuple[Span, str, str]]:
    """What in the argument of a call has no history of its own: where, a message, a hint."""
    for argument in call.args:
        for node in walk(argument):
            yield from _faults_of(call, node, text)


def _faults_of(call: Call, node: Expr, text: str) -> Iterator[tuple[Span, str, str]]:
    func = call.func
    match node:
        case Call() if node.func in FUNCTIONS_WITH_MEMORY:
            message = f"{node.func} cannot stand inside of {func}: each has a clock of its own"
            yield node.func_span, message, record_first(node, text)
        case Call() if node.func in _OF_THE_QUERY:
            message = f"{node.func}() is of the query, and {func} has one history for all queries"
            yield node.span, message, "write the time or the length as a number"
        case VectorSelector(modifier="smoothed"):
            message = f"smoothed looks at later samples, which {func} has not seen yet"
            yield node.span, message, "remove smoothed"
        case _:
            pass
    if isinstance(node, VectorSelector | Subquery) and node.at is not None:
        message = f"@ fixes the time, and {func} follows its argument through time"
        hint = "remove @; to see one time, record the score first and ask for what is recorded"
        yield node.at.span, message, hint
    for duration in durations(node):
        if duration.expr is not None and any(map(_is_of_the_query, walk(duration.expr))):
            message = f"step() and range() are of the query, and {func} has one history for all"
            yield duration.span, message, "write the duration as a literal, as in 5m"
    offset = node.offset if isinstance(node, VectorSelector | Subquery) else None
    if offset is not None and offset.milliseconds < 0:
        message = f"a negative offset looks at later samples, which {func} has not seen yet"
        yield offset.span, message, "remove the offset, or make it positive"


def _is_of_the_query(node: Expr) -> bool:
    return isinstance(node, Call) and node.func in _OF_THE_QUERY
