"""Why an alert is what it is, as data: the same live and over a recording.

Everything is asked of the evaluator again, at the last time at which the alert's expression held,
so that nothing is kept for it while rules run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.alerts.alert import AlertState
from engine.explanation.data import nameless, number
from engine.explanation.memory import of_model
from engine.explanation.panels import panels
from engine.explanation.parts import parts_of
from engine.explanation.peers import of_group
from engine.explanation.question import asked
from engine.explanation.statistics import statistics_in
from engine.explanation.windows import of_window
from engine.timestamps import unix_seconds
from rules.durations import format_duration
from rules.model import RESOLVE_ANNOTATION
from rules.promql.ast import Aggregate, Binary, Call, NumberLiteral
from rules.promql.functions import FUNCTIONS_WITH_MEMORY
from rules.promql.printer import format as format_expression
from rules.promql.walk import unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.alerts.alert import Alert
    from engine.explanation.data import Data, Row
    from engine.explanation.parts import Part
    from engine.explanation.question import Grounds, Question
    from engine.explanation.statistics import Statistic
    from engine.labels import Labels

# Of a part that has more elements than the alert tells apart, these are told.
MOST_ELEMENTS: Final = 5
ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%", "^", "atan2"})


def explain(alert: Alert, grounds: Grounds, *, with_panels: bool = False) -> dict[str, Any]:
    """The explanation, ready for JSON; times are unix seconds. `with_panels`: with the last hour.

    Raises ExplanationError where the rule is gone, EvaluationError where it cannot be evaluated.
    """
    question = asked(alert, grounds)
    rule = question.rule
    parts = parts_of(rule.expression.tree)
    told = [_part(question, part) for part in parts]
    found: dict[str, Any] = {
        "alertname": alert.labels.get("alertname"),
        "labels": alert.labels.to_dict(),
        "state": alert.state.value,
        "value": number(alert.value),
        "active_at": unix_seconds(alert.active_at_ms),
        "fired_at": _seconds(alert.fired_at_ms),
        "resolved_at": _seconds(alert.resolved_at_ms),
        "held_by": _held_by(question),
        "looked_at": unix_seconds(question.time_ms),
        "annotations": dict(alert.annotations),
        "expr": format_expression(rule.expression.tree),
        "for": format_duration(rule.for_ms),
        "parts": told,
        "evidence": [dict(entry) for entry in alert.evidence],
    }
    if with_panels:
        found["panels"] = panels(question, parts, told)
    return found


def _held_by(question: Question) -> str:
    """What keeps an alert firing whose expression holds no more, "" where it does or it is over."""
    alert, rule = question.alert, question.rule
    if alert.state is not AlertState.FIRING:
        return ""
    if alert.keep_firing_since_ms is not None:
        return "keep_firing_for"
    holds = question.own(question.data.rows(rule.expression.tree, question.time_ms))
    return "" if holds or rule.resolve is None else RESOLVE_ANNOTATION


def _seconds(time_ms: int | None) -> float | None:
    return None if time_ms is None else unix_seconds(time_ms)


def _part(question: Question, part: Part) -> dict[str, Any]:
    own = question.own(question.data.rows(part.left, question.time_ms))
    limits = [] if part.right is None else question.data.rows(part.right, question.time_ms)
    limits = question.own(limits)
    found: dict[str, Any] = {
        "joined": part.joined,
        "expr": format_expression(part.expr),
        "left": format_expression(part.left),
        "op": part.op,
        "holds": bool(question.own(question.data.rows(part.expr, question.time_ms))),
        "elements": len(own),
        "values": [
            {
                "labels": nameless(labels).to_dict(),
                "value": number(value),
                "threshold": _threshold(limits, labels),
            }
            for labels, value in own[:MOST_ELEMENTS]
        ],
    }
    if operands := list(_operands(question, part)):
        found["operands"] = operands
    limit = limits[0][1] if len(limits) == 1 else None
    statistics = statistics_in(part, question.time_ms, question.recorded, limit)
    if told := [own for one in statistics for own in _statistic(question, one)]:
        found["statistics"] = told
    return found


def _threshold(limits: Sequence[Row], labels: Labels) -> float | str | None:
    """The other side's value for an element; a number is one for all."""
    fitting = [
        value
        for own, value in limits
        if all(labels.get(name) in {"", known} for name, known in nameless(own))
    ]
    return number(fitting[0]) if len(fitting) == 1 else None


def _operands(question: Question, part: Part) -> Iterator[dict[str, Any]]:
    """The two sides of the arithmetic that a part compares, where each is one element."""
    node = unwrapped(part.left)
    if not isinstance(node, Binary) or node.op not in ARITHMETIC:
        return
    for side in (node.lhs, node.rhs):
        if isinstance(side, NumberLiteral):
            continue
        own = question.own(question.data.rows(side, question.time_ms))
        if len(own) == 1:
            yield {"expr": format_expression(side), "value": number(own[0][1])}


def _statistic(question: Question, statistic: Statistic) -> Iterator[dict[str, Any]]:
    rows = question.own(question.data.rows(statistic.node, statistic.time_ms))
    for labels, value in rows[:MOST_ELEMENTS]:
        yield {
            "function": statistic.name,
            "expr": statistic.text,
            "recorded_as": statistic.recorded_as,
            "labels": nameless(labels).to_dict(),
            "value": number(value),
        } | _made_of(question.data, statistic, labels, value)


def _made_of(data: Data, statistic: Statistic, labels: Labels, value: float) -> dict[str, Any]:
    time_ms, limit = statistic.time_ms, statistic.limit
    match statistic.node:
        case Aggregate() as node:
            return of_group(data, node, time_ms, labels, limit)
        case Call(func=func) as node if func in FUNCTIONS_WITH_MEMORY:
            return of_model(data, node, time_ms, labels, value)
        case Call() as node:
            return of_window(data, node, time_ms, labels, limit)
