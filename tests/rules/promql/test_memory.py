"""What a function that remembers cannot take is refused, with what to write instead."""

from __future__ import annotations

import pytest

from rules.promql.parser import parse
from rules.source import ProblemsError

RECORD_FIRST = "record the score first"

# An expression, the part that is at fault, words of the message and of the hint.
REFUSED = {
    "anomaly_score(x @ 1700000000)": ("@ 1700000000", "@ fixes the time", RECORD_FIRST),
    "anomaly_score(rate(x[5m] @ end()))": ("@ end()", "@ fixes the time", RECORD_FIRST),
    "anomaly_score(max_over_time(x[1h:1m] @ 7))": ("@ 7", "@ fixes the time", RECORD_FIRST),
    "max_over_time(anomaly_score(x)[1h:])": (
        "anomaly_score",
        "it has no subquery",
        "record the score first, by a rule with expr: anomaly_score(x),",
    ),
    "sum_over_time((anomaly_score(x) > bool 0.5)[1h:1m])": (
        "anomaly_score",
        "it has no subquery",
        RECORD_FIRST,
    ),
    "anomaly_score(1 - anomaly_score(x))": ("anomaly_score", "cannot stand inside", RECORD_FIRST),
    "anomaly_score(x offset -5m)": ("-5m", "later samples", "make it positive"),
    "anomaly_score(rate(x[5m] smoothed))": ("x", "later samples", "remove smoothed"),
    "anomaly_score(x > start())": ("start()", "of the query", "as a number"),
    "anomaly_score(x * step())": ("step()", "of the query", "as a number"),
    "anomaly_score(rate(x[4 * step()]))": ("4 * step()", "of the query", "as a literal"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_history_of_its_own_is_refused_at_its_place(text: str) -> None:
    part, message, hint = REFUSED[text]
    with pytest.raises(ProblemsError) as caught:
        parse(text)
    (problem,) = caught.value.problems
    assert text[problem.span.start : problem.span.end].startswith(part)
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize(
    "text",
    [
        "anomaly_score(x)",
        "anomaly_score(x offset 5m) > 0.5",
        "anomaly_score(sum by (task_id) (rate(x[5m])))",
        "anomaly_score(max_over_time(rate(x[5m])[1h:1m]))",
        "anomaly_score(x) > 0.5 and x @ 1700000000 > 0",
        "x > step() and anomaly_score(x) > 0.5",
    ],
)
def test_what_has_a_history_is_accepted(text: str) -> None:
    parse(text)
