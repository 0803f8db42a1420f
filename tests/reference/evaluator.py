"""An expression at one time, node by node, over samples that are looked up one by one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from engine.labels import METRIC_NAME, Labels
from engine.promql.functions.arithmetic import round_to, sgn
from engine.promql.regex import compile_pattern
from engine.series import stale_mask
from rules.promql.ast import (
    Aggregate,
    Binary,
    Call,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    VectorMatching,
    VectorSelector,
)

from .extended import EXTENDED, between
from .statistics import STATISTICS
from .vectors import (
    ARITHMETIC,
    COMPARISONS,
    METADATA,
    Element,
    Elements,
    RefusedError,
    aggregated,
    combined,
    distinct,
    matched,
)
from .windows import FUNCTIONS as PROMETHEUS
from .windows import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.promql.engine import Options
    from engine.series import Queryable
    from rules.promql.ast import At, Duration, Expr

Value = float | str | Elements
FUNCTIONS = {**PROMETHEUS, **STATISTICS}
ALL_LABELS = VectorMatching("one-to-one", on=False, labels=())
# Which arguments of a function over ranges are the range and the scalars, if not the usual ones.
PARAMS = {"quantile_over_time": (1, (0,)), "predict_linear": (0, (1,)),
          "double_exponential_smoothing": (0, (1, 2)), "ewma_over_time": (0, (1,)),
          "ewma_zscore": (0, (1,)), "seasonal_zscore": (0, (1,)),
          "holt_band_over_time": (0, (1, 2)), "holt_forecast_over_time": (0, (1, 2)),
          "holt_trend_over_time": (0, (1, 2))}  # fmt: skip
KEEPS_NAME = ("first_over_time", "last_over_time")


def _numpy(function: Callable[..., object]) -> Callable[..., float]:
    def apply(*numbers: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*map(np.float64, numbers)))  # type: ignore[arg-type]

    return apply


ELEMENTWISE: dict[str, Callable[..., float]] = {
    "abs": abs,
    "ceil": _numpy(np.ceil),
    "clamp_max": lambda value, high: math.nan if math.isnan(value) else min(value, high),
    "clamp_min": lambda value, low: math.nan if math.isnan(value) else max(value, low),
    "exp": _numpy(np.exp),
    "floor": _numpy(np.floor),
    "ln": _numpy(np.log),
    "round": _numpy(round_to),
    "sgn": _numpy(sgn),
    "sqrt": _numpy(np.sqrt),
}


@dataclass(frozen=True)
class Query:
    """`now_ms`: the step; `start_ms` and `end_ms`: what `@ start()` and `@ end()` mean."""

    storage: Queryable
    options: Options
    now_ms: int
    start_ms: int
    end_ms: int
    visible_ms: float = math.inf

    def at(self, now_ms: int) -> Query:
        return replace(self, now_ms=now_ms)

    def moment(self, at: At | None, offset: Duration | None) -> int:
        anchors = {"start": self.start_ms, "end": self.end_ms}
        time = self.now_ms
        if at is not None:
            time = at.anchor if isinstance(at.anchor, int) else anchors[at.anchor]
        return time if offset is None else time - offset.milliseconds

    def samples(
        self, selector: VectorSelector, range_ms: int, after_ms: int = 0
    ) -> list[tuple[Labels, list[tuple[int, float]], bool]]:
        """Each series' samples in (t - range, t + after].

        Labels, points, whether the last is a marker.
        """
        end = self.moment(selector.at, selector.offset)
        found = []
        for series in self.storage.select(selector.matchers, -(2**52), 2**52):
            stale = stale_mask(series.values).tolist()
            rows = [
                (time, value, marker)
                for time, value, marker in zip(
                    series.timestamps_ms.tolist(), series.values.tolist(), stale, strict=True
                )
                if end - range_ms < time <= end + after_ms and time <= self.visible_ms
            ]
            if rows:
                points = [(time, value) for time, value, marker in rows if not marker]
                found.append((series.labels, points, rows[-1][2]))
        return found


def evaluate_at(query: Query, expr: Expr) -> dict[Labels, float] | float | str:
    """The finished result at one step. Raises RefusedError."""
    value = evaluate(query, expr)
    if not isinstance(value, list):
        return value
    bare = [
        Element(one.labels.without(*METADATA) if one.drop else one.labels, one.value)
        for one in value
    ]
    return {one.labels: one.value for one in distinct(bare)}


def evaluate(query: Query, expr: Expr) -> Value:  # noqa: C901 - one case per kind of node
    match expr:
        case NumberLiteral(value=number):
            return number
        case StringLiteral(value=text):
            return text
        case Paren(expr=inner):
            return evaluate(query, inner)
        case VectorSelector(modifier="smoothed"):
            return smoothed(query, expr)
        case VectorSelector():
            return [
                Element(labels, points[-1][1])
                for labels, points, ended in query.samples(expr, query.options.lookback_ms)
                if not ended
            ]
        case Unary(op=op, expr=inner):
            value = evaluate(query, inner)
            if op == "+" or isinstance(value, str):
                return value
            return -value if isinstance(value, float) else mapped(query, value, lambda v: -v)
        case Binary():
            return binary(query, expr)
        case Aggregate():
            param = None if expr.param is None else scalar(query, expr.param)
            return aggregated(expr, param, vector(query, expr.expr))
        case Call():
            return call(query, expr)
    raise NotImplementedError(expr)


def vector(query: Query, expr: Expr) -> Elements:
    value = evaluate(query, expr)
    assert isinstance(value, list)
    return value


def scalar(query: Query, expr: Expr) -> float:
    value = evaluate(query, expr)
    assert isinstance(value, float)
    return value


def string(query: Query, expr: Expr) -> str:
    value = evaluate(query, expr)
    assert isinstance(value, str)
    return value


def unnamed(query: Query, elements: Elements) -> Elements:
    if query.options.delayed_name_removal:
        return [Element(one.labels, one.value, drop=True) for one in elements]
    return distinct([Element(one.labels.without(*METADATA), one.value) for one in elements])


def mapped(query: Query, elements: Elements, function: Callable[..., float]) -> Elements:
    return unnamed(query, [Element(one.labels, function(one.value)) for one in elements])


def binary(query: Query, node: Binary) -> Value:
    lhs, rhs = evaluate(query, node.lhs), evaluate(query, node.rhs)
    assert not isinstance(lhs, str)
    assert not isinstance(rhs, str)
    if isinstance(lhs, float) and isinstance(rhs, float):
        if node.op in ARITHMETIC:
            return ARITHMETIC[node.op](lhs, rhs)
        return float(COMPARISONS[node.op](lhs, rhs))
    if isinstance(lhs, list) and isinstance(rhs, list):
        matching = node.matching or ALL_LABELS
        if node.op in ("and", "or", "unless"):
            return combined(node, matching, lhs, rhs)
        found = matched(node, matching, lhs, rhs)
        return unnamed(query, found) if node.return_bool else distinct(found)
    elements = lhs if isinstance(lhs, list) else rhs
    assert isinstance(elements, list)
    sides = [
        (one, one.value if lhs is elements else lhs, one.value if rhs is elements else rhs)
        for one in elements
    ]
    if node.op in ARITHMETIC:
        changed = [Element(one.labels, ARITHMETIC[node.op](a, b)) for one, a, b in sides]
        return unnamed(query, changed)
    holds = COMPARISONS[node.op]
    if node.return_bool:
        return unnamed(query, [Element(one.labels, float(holds(a, b))) for one, a, b in sides])  # type: ignore[arg-type]
    return [one for one, a, b in sides if holds(a, b)]  # type: ignore[arg-type]


def windows(query: Query, expr: Expr) -> list[tuple[Labels, bool, Window]]:
    """The windows of a range vector that hold a sample."""
    while isinstance(expr, Paren):
        expr = expr.expr
    if isinstance(expr, MatrixSelector):
        selector, range_ms = expr.selector, expr.range.milliseconds
        end = query.moment(selector.at, selector.offset)
        return [
            (labels, False, Window(points, end - range_ms, end, query.now_ms))
            for labels, points, _ in query.samples(selector, range_ms)
            if points
        ]
    assert isinstance(expr, Subquery)
    end, range_ms = query.moment(expr.at, expr.offset), expr.range.milliseconds
    step = query.options.default_step_ms if expr.step is None else expr.step.milliseconds
    series: dict[tuple[Labels, bool], list[tuple[int, float]]] = {}
    time = ((end - range_ms) // step + 1) * step
    while time <= end:
        for one in distinct(vector(query.at(time), expr.expr)):
            series.setdefault((one.labels, one.drop), []).append((time, one.value))
        time += step
    return [
        (labels, drop, Window(points, end - range_ms, end, query.now_ms))
        for (labels, drop), points in series.items()
    ]


def smoothed(query: Query, selector: VectorSelector) -> Elements:
    """On the line between the samples around the step; the last value holds for the look-back."""
    now, lookback = query.moment(selector.at, selector.offset), query.options.lookback_ms
    found: Elements = []
    for labels, points, _ in query.samples(selector, lookback, lookback):
        before = [point for point in points if point[0] <= now]
        after = [point for point in points if point[0] > now]
        if before and before[-1][0] < now and after:
            found.append(Element(labels, between(before[-1], after[0], now, counter=False)))
        elif before:
            found.append(Element(labels, before[-1][1]))
    return found


def extended(query: Query, node: Call, matrix: MatrixSelector) -> Elements:
    """A function of an anchored or smoothed range."""
    selector, range_ms = matrix.selector, matrix.range.milliseconds
    end, lookback = query.moment(selector.at, selector.offset), query.options.lookback_ms
    after = lookback if selector.modifier == "smoothed" else 0
    found: Elements = []
    for labels, points, _ in query.samples(selector, range_ms + lookback, after):
        value = EXTENDED[selector.modifier or ""](node.func, points, end - range_ms, end)
        if value is not None:
            found.append(Element(labels, value))
    return unnamed(query, found)


def over_range(query: Query, node: Call) -> Elements:
    where, others = PARAMS.get(node.func, (0, ()))
    argument = node.args[where]
    if isinstance(argument, MatrixSelector) and argument.selector.modifier is not None:
        return extended(query, node, argument)
    params = tuple(scalar(query, node.args[index]) for index in others)
    found: Elements = []
    for labels, drop, window in windows(query, node.args[where]):
        value = FUNCTIONS[node.func](window._replace(params=params))
        if value is not None:
            found.append(Element(labels, value, drop))
    return found if node.func in KEEPS_NAME else unnamed(query, found)


def call(query: Query, node: Call) -> Value:
    if node.func in FUNCTIONS:
        return over_range(query, node)
    if node.func in ELEMENTWISE:
        rest = [scalar(query, arg) for arg in node.args[1:]]
        function = ELEMENTWISE[node.func]
        return mapped(query, vector(query, node.args[0]), lambda value: function(value, *rest))
    match node.func:
        case "time":
            return query.now_ms / 1000
        case "vector":
            return [Element(Labels(), scalar(query, node.args[0]))]
        case "scalar":
            only = vector(query, node.args[0])
            return only[0].value if len(only) == 1 else math.nan
        case "absent" | "absent_over_time":
            read: Callable[..., Sequence[object]] = vector if node.func == "absent" else windows
            return [] if read(query, node.args[0]) else [Element(pinned(node.args[0]), 1.0)]
        case "timestamp":
            return timestamps(query, node.args[0])
        case "sort" | "sort_desc":
            return vector(query, node.args[0])
        case "label_replace":
            return replaced(query, node)
    raise NotImplementedError(node.func)


def timestamps(query: Query, expr: Expr) -> Elements:
    if not isinstance(expr, VectorSelector):
        return mapped(query, vector(query, expr), lambda _: query.now_ms / 1000)
    found = query.samples(expr, query.options.lookback_ms)
    return unnamed(
        query, [Element(labels, rows[-1][0] / 1000) for labels, rows, ended in found if not ended]
    )


def pinned(expr: Expr) -> Labels:
    while isinstance(expr, Paren):
        expr = expr.expr
    selector = expr.selector if isinstance(expr, MatrixSelector) else expr
    if not isinstance(selector, VectorSelector):
        return Labels()
    names = [matcher.label for matcher in selector.matchers]
    return Labels(
        {
            matcher.label: matcher.value
            for matcher in selector.matchers
            if matcher.op == "="
            and matcher.label != METRIC_NAME
            and names.count(matcher.label) == 1
        }
    )


def replaced(query: Query, node: Call) -> Elements:
    destination, template, source, pattern = (string(query, arg) for arg in node.args[1:5])
    found: Elements = []
    for one in vector(query, node.args[0]):
        text = compile_pattern(pattern).expand(template, one.labels.get(source))
        if text is None:
            found.append(one)
        else:
            drop = one.drop and destination != METRIC_NAME
            found.append(Element(one.labels.merged({destination: text}), one.value, drop))
    return distinct(found)


__all__ = ["Query", "RefusedError", "evaluate_at"]
