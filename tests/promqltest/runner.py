"""Runs scripts and compares what comes out with what they expect."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.labels import Labels
from engine.promql.engine import EvaluationError, Options, evaluate
from engine.promql.value import Axis, Matrix, Result, Scalar, String, Vector
from engine.series import stale_mask
from rules.errors import StallwatchError
from rules.promql.parser import parse
from rules.source import Source

from .notation import Item, NativeHistogram, Stale
from .script import Clear, Evaluation, Load, parse_script
from .storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.promql.value import Value

# Prometheus' own tolerance: relative, on the sum of magnitudes.
EPSILON = 1e-6
SMALLEST_NORMAL = 2.0**-1022
NOT_SUPPORTED = "not supported"
MINUTE_MS = 60_000

Points = dict[int, float]


class MismatchError(Exception):
    """A result that is not as expected."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected = expected
        self.got = got


@dataclass(frozen=True)
class Failure:
    """One evaluation that went wrong."""

    line: int
    expr: str
    expected: str
    got: str


@dataclass
class Tally:
    """Counts of one file."""

    passed: int = 0
    failures: list[Failure] = field(default_factory=list)
    unsupported: list[Failure] = field(default_factory=list)


def run_script(text: str, options: Options | None = None) -> Tally:
    """Run all commands of a script. Raises ScriptError if it does not parse."""
    storage, tally = MemoryStorage(), Tally()
    for command in parse_script(text):
        match command:
            case Clear():
                storage = MemoryStorage()
            case Load():
                storage.load(command)
            case Evaluation():
                _run(command, storage, options or Options(default_step_ms=60_000), tally)
    return tally


def _run(case: Evaluation, storage: MemoryStorage, options: Options, tally: Tally) -> None:
    storage.touched.clear()
    try:
        _check(case, storage, options)
    except MismatchError as mismatch:
        failure = Failure(case.line, case.expr, mismatch.expected, mismatch.got)
        needs = _needs(case, storage) or (NOT_SUPPORTED if NOT_SUPPORTED in mismatch.got else "")
        (tally.unsupported if needs else tally.failures).append(failure)
    else:
        tally.passed += 1


def _needs(case: Evaluation, storage: MemoryStorage) -> str:
    if any(isinstance(item, NativeHistogram) for _, items in case.series for item in items):
        return "needs native histograms"
    return ", ".join(sorted(storage.touched))


def _check(case: Evaluation, storage: MemoryStorage, options: Options) -> None:
    if case.step_ms is None:
        axis = Axis(Axis.instant(case.start_ms).times_ms, 0)
    else:
        axis = Axis.span(case.start_ms, case.end_ms, case.step_ms)
    try:
        result = _evaluate(case.expr, axis, storage, options)
    except StallwatchError as error:
        _check_error(case, error)
        return
    if case.expects("fail"):
        raise MismatchError("an error", _shown(result.value))
    _check_annotations(case, result)
    _check_value(case, result.value, axis)
    if case.step_ms is None and isinstance(result.value, Scalar | Vector):
        _check_as_range(case, storage, options)


def _check_as_range(case: Evaluation, storage: MemoryStorage, options: Options) -> None:
    """An instant query must say the same as one step of a range query around it."""
    if case.expects("ordered") or "start()" in case.expr or "end()" in case.expr:
        return
    start, end = case.start_ms - MINUTE_MS, case.start_ms + MINUTE_MS
    try:
        axis = Axis.span(start, end, MINUTE_MS)
        value = _evaluate(case.expr, axis, storage, options).value
    except EvaluationError:
        # Another step of the range may well be in error where this one is not.
        return
    _check_value(case, value, axis)


def _evaluate(expr: str, axis: Axis, storage: MemoryStorage, options: Options) -> Result:
    source = Source("<expression>", expr)
    tree = parse(source)
    used = Options(
        options.lookback_ms,
        options.default_step_ms,
        options.delayed_name_removal,
        options.max_samples,
        source,
    )
    return evaluate(tree, axis, storage, used)


def _check_error(case: Evaluation, error: StallwatchError) -> None:
    if not case.expects("fail"):
        raise MismatchError("a result", f"error: {error}")
    for one in case.expectations:
        if one.kind == "fail" and not one.accepts(str(error)):
            raise MismatchError(f"error {one.text!r}", f"error: {error}")


def _check_annotations(case: Evaluation, result: Result) -> None:
    for kind, found in (("warn", result.warnings), ("info", result.infos)):
        if case.expects(f"no_{kind}") and found:
            raise MismatchError(f"no {kind}", f"{kind}: {found[0]}")
        wanted = [one for one in case.expectations if one.kind == kind]
        for one in wanted:
            if not any(one.accepts(text) for text in found):
                raise MismatchError(f"{kind} {one.text!r}", f"{kind}: {list(found)}")
        for text in found if wanted else ():
            if not any(one.accepts(text) for one in wanted):
                raise MismatchError(f"only the expected {kind}", f"{kind}: {text}")


def _check_value(case: Evaluation, value: Value, axis: Axis) -> None:
    match value:
        case String(value=text):
            if text != case.string:
                raise MismatchError(repr(case.string), repr(text))
        case Scalar(values=values) if not case.series:
            expected = [(Labels(), [case.scalar])]
            times = axis.times_ms.tolist()
            got = [(Labels(), dict(zip(times, values.tolist(), strict=True)))]
            _compare(expected, got, case)
        case Scalar(values=values):
            times = axis.times_ms.tolist()
            got = [(Labels(), dict(zip(times, values.tolist(), strict=True)))]
            _compare(case.series, got, case)
        case Vector() | Matrix():
            _compare(case.series, list(_rows(value, axis)), case)
            if case.expects("ordered"):
                _check_order(case, value)


def _rows(value: Vector | Matrix, axis: Axis) -> Iterator[tuple[Labels, Points]]:
    if isinstance(value, Matrix):
        for series in value.series:
            points = zip(series.timestamps_ms.tolist(), series.values.tolist(), strict=True)
            yield series.labels, dict(points)
        return
    times = axis.times_ms.tolist()
    for labels, row, present in zip(value.labels, value.values, value.present, strict=True):
        if stale_mask(row)[present].any():
            raise MismatchError("no staleness marker in a result", str(labels))
        cells = zip(times, row.tolist(), present.tolist(), strict=True)
        yield labels, {time: number for time, number, here in cells if here}


def _compare(
    expected: list[tuple[Labels, list[Item]]], got: list[tuple[Labels, Points]], case: Evaluation
) -> None:
    start, step = _grid(case)
    found = {labels: _at_case(case, points) for labels, points in got}
    if len(found) != len(got):
        raise MismatchError("distinct label sets", str([str(labels) for labels, _ in got]))
    for labels, items in expected:
        points = found.pop(labels, {})
        wanted = {start + n * step: item for n, item in enumerate(items) if item is not None}
        equal = set(points) == set(wanted) and all(
            _same(item, points[time]) for time, item in wanted.items()
        )
        if not equal:
            given = _listed(points.values())
            raise MismatchError(f"{labels} {_listed(items)}", f"{labels} {given}")
    for labels, points in found.items():
        if points:
            raise MismatchError("no further series", f"{labels} {_listed(points.values())}")


def _at_case(case: Evaluation, points: Points) -> Points:
    """Of an instant case that runs as a range, only the step that the case is about."""
    if case.step_ms is not None or case.matrix_ms is not None:
        return points
    return {time: value for time, value in points.items() if time == case.start_ms}


def _grid(case: Evaluation) -> tuple[int, int]:
    if case.matrix_ms is not None:
        return case.matrix_ms
    return case.start_ms, case.step_ms or 0


def _check_order(case: Evaluation, value: Vector | Matrix) -> None:
    if isinstance(value, Matrix):
        return
    order = range(len(value.labels)) if value.order is None else value.order
    shown = [value.labels[row] for row in order if value.present[row, 0]]
    wanted = [labels for labels, _ in case.series]
    if shown != wanted:
        raise MismatchError(str([str(one) for one in wanted]), str([str(one) for one in shown]))


def _same(item: Item, got: float) -> bool:
    if not isinstance(item, float):
        return False
    if math.isnan(item) or math.isnan(got):
        return math.isnan(item) and math.isnan(got)
    if item == got:
        return True
    magnitude, difference = abs(item) + abs(got), abs(item - got)
    if 0 in (item, got) or magnitude < SMALLEST_NORMAL:
        return difference < EPSILON * SMALLEST_NORMAL
    return difference / min(magnitude, 1.7976931348623157e308) < EPSILON


def _listed(values: Iterable[Item]) -> str:
    shown = []
    for value in values:
        match value:
            case None:
                shown.append("_")
            case Stale():
                shown.append("stale")
            case NativeHistogram(text=text):
                shown.append(text)
            case _:
                shown.append(repr(value))
    return " ".join(shown) or "nothing"


def _shown(value: Value) -> str:
    match value:
        case Vector(labels=labels):
            return f"a vector of {len(labels)} series"
        case Matrix(series=series):
            return f"a matrix of {len(series)} series"
        case Scalar(values=values):
            return f"a scalar {values.tolist()}"
        case String(value=text):
            return repr(text)
