"""The last hour of what an explanation speaks of, to be drawn: a panel for each statistic.

A part without one shows what it compares, and its threshold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.explanation.data import HOUR_MS, nameless, number
from engine.explanation.statistics import statistics_in
from engine.explanation.wording import brief, compared
from engine.promql.grouping import grouped_labels
from engine.timestamps import unix_seconds
from rules.promql.ast import Aggregate, MatrixSelector, Subquery
from rules.promql.printer import format as format_expression
from rules.promql.walk import unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.explanation.parts import Part
    from engine.explanation.question import Question
    from engine.explanation.statistics import Statistic
    from engine.labels import Labels
    from engine.series import Series
    from rules.promql.ast import Expr

MOST_PANELS: Final = 4
MOST_LINES: Final = 20


def panels(
    question: Question, parts: Sequence[Part], told: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """At most MOST_PANELS, in the order of the parts; `told`: what is told of each in words."""
    found: dict[str, dict[str, Any]] = {}
    for part, own in zip(parts, told, strict=True):
        for one in _of_part(question, part, own):
            if len(found) < MOST_PANELS and one["lines"]:
                found.setdefault(one["expr"], one)
    return list(found.values())


def _of_part(question: Question, part: Part, told: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    by_text = {one["expr"]: one for one in reversed(told.get("statistics", ()))}
    if not by_text:
        values = told["values"]
        threshold = values[0]["threshold"] if values else None
        panel = _panel(question, part.left, None, threshold=threshold)
        yield panel | {"said": compared(told)}
        return
    for statistic in statistics_in(part, question.time_ms, question.recorded):
        if (one := by_text.get(statistic.text)) is not None:
            expected = one.get("expected")
            panel = _panel(question, _subject(statistic), statistic, expected=expected)
            yield panel | {"said": brief(one)}


def _subject(statistic: Statistic) -> Expr:
    """What a statistic is of."""
    if isinstance(statistic.node, Aggregate):
        return statistic.node.expr
    argument = unwrapped(statistic.node.args[0])
    if isinstance(argument, MatrixSelector):
        return argument.selector
    return argument.expr if isinstance(argument, Subquery) else argument


def _panel(
    question: Question,
    subject: Expr,
    statistic: Statistic | None,
    *,
    threshold: float | str | None = None,
    expected: Sequence[float | str | None] | None = None,
) -> dict[str, Any]:
    lines = question.data.lines(subject, question.time_ms)
    ours = {labels for labels, _ in question.own([(one.labels, 0.0) for one in lines])}
    if statistic is None or not isinstance(statistic.node, Aggregate):
        lines = [one for one in lines if one.labels in ours]
    else:
        node = statistic.node
        groups = {grouped_labels(one.labels, node) for one in lines if one.labels in ours}
        lines = [one for one in lines if grouped_labels(one.labels, node) in groups]
    lines.sort(key=lambda one: (one.labels not in ours, one.labels))
    return {
        "expr": format_expression(subject),
        "start": unix_seconds(question.time_ms - HOUR_MS),
        "end": unix_seconds(question.time_ms),
        "threshold": threshold,
        "expected": expected,
        "lines": [_line(one, ours) for one in lines[:MOST_LINES]],
    }


def _line(series: Series, ours: set[Labels]) -> dict[str, Any]:
    points = zip(series.timestamps_ms.tolist(), series.values.tolist(), strict=True)
    return {
        "labels": nameless(series.labels).to_dict(),
        "is_own": series.labels in ours,
        "points": [[unix_seconds(time_ms), number(value)] for time_ms, value in points],
    }
