"""Compares a result with what a case expects, or to the bit with what another mode gave."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.labels import Labels
from engine.promql.value import Matrix, Scalar, String, Vector
from engine.series import stale_mask

from .notation import Item, NativeHistogram, Stale

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.promql.value import Axis, Result, Value
    from rules.errors import StallwatchError

    from .script import Evaluation

# Prometheus' own tolerance: relative, on the sum of magnitudes. Results in scripts are rounded.
EPSILON = 1e-6
SMALLEST_NORMAL = 2.0**-1022
LARGEST = 1.7976931348623157e308

Points = dict[int, float]
Rows = dict[Labels, Points]


class MismatchError(Exception):
    """A result that is not as expected."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected = expected
        self.got = got


@dataclass(frozen=True)
class Answer:
    """What an evaluation gave: rows of points, or a string. A scalar is a row without labels."""

    rows: Rows
    string: str | None = None
    is_scalar: bool = False
    order: tuple[Labels, ...] = ()
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()

    def at(self, time_ms: int) -> Answer:
        """Only what it gave for one time."""
        rows = {
            labels: {time_ms: points[time_ms]}
            for labels, points in self.rows.items()
            if time_ms in points
        }
        return Answer(rows, self.string, self.is_scalar)


def answer(result: Result, axis: Axis) -> Answer:
    """A result as rows. Raises MismatchError for what no result may hold."""
    value = result.value
    rows: Rows = {}
    for labels, points in _rows(value, axis):
        if labels in rows:
            raise MismatchError("distinct label sets", f"{labels} twice")
        if points:
            rows[labels] = points
    text = value.value if isinstance(value, String) else None
    order = _order(value)
    return Answer(rows, text, isinstance(value, Scalar), order, result.warnings, result.infos)


def _order(value: Value) -> tuple[Labels, ...]:
    if not isinstance(value, Vector):
        return ()
    order = range(len(value.labels)) if value.order is None else value.order
    return tuple(value.labels[row] for row in order if value.present[row, 0])


def _rows(value: Value, axis: Axis) -> Iterator[tuple[Labels, Points]]:
    times = axis.times_ms.tolist()
    match value:
        case Matrix():
            for series in value.series:
                points = zip(series.timestamps_ms.tolist(), series.values.tolist(), strict=True)
                yield series.labels, dict(points)
        case Scalar(values=values):
            yield Labels(), dict(zip(times, values.tolist(), strict=True))
        case Vector():
            for labels, row, present in zip(value.labels, value.values, value.present, strict=True):
                if stale_mask(row)[present].any():
                    raise MismatchError("no staleness marker in a result", str(labels))
                cells = zip(times, row.tolist(), present.tolist(), strict=True)
                yield labels, {time: number for time, number, here in cells if here}


def check_error(case: Evaluation, error: StallwatchError) -> None:
    """An error is what the case expects, with the text it expects."""
    if not case.expects("fail"):
        raise MismatchError("a result", f"error: {error}")
    for one in case.expectations:
        if one.kind == "fail" and not one.accepts(str(error)):
            raise MismatchError(f"error {one.text!r}", f"error: {error}")


def check_answer(case: Evaluation, found: Answer) -> None:
    """A result, its order and its annotations are what the case expects."""
    if case.expects("fail"):
        raise MismatchError("an error", described(found))
    _check_annotations(case, found)
    if found.string is not None or case.string is not None:
        if found.string != case.string:
            wanted = _expected_text(case) if case.string is None else repr(case.string)
            raise MismatchError(wanted, described(found))
        return
    scalar_expected = case.scalar is not None
    if case.is_instant and found.is_scalar != scalar_expected:
        wanted = f"a scalar {case.scalar}" if scalar_expected else _expected_text(case)
        raise MismatchError(wanted, described(found))
    _check_rows(case, found.rows)
    if case.expects("ordered") and list(found.order) != list(case.series):
        raise MismatchError(_names(case.series), _names(found.order))


def _expected_text(case: Evaluation) -> str:
    rows = [f"{labels} {listed(items)}" for labels, items in case.series.items()]
    return "a vector, " + (", ".join(rows) or "of no series")


def _check_annotations(case: Evaluation, found: Answer) -> None:
    for kind, texts in (("warn", found.warnings), ("info", found.infos)):
        if case.expects(f"no_{kind}") and texts:
            raise MismatchError(f"no {kind}", f"{kind}: {texts[0]}")
        wanted = [one for one in case.expectations if one.kind == kind]
        for one in wanted:
            if not any(one.accepts(text) for text in texts):
                raise MismatchError(f"{kind} {one.text!r}", f"{kind}: {list(texts)}")
        for text in texts if wanted else ():
            if not any(one.accepts(text) for one in wanted):
                raise MismatchError(f"only the expected {kind}", f"{kind}: {text}")


def _check_rows(case: Evaluation, rows: Rows) -> None:
    if case.matrix_ms is not None:
        start, end, step = case.matrix_ms
    else:
        start, end, step = case.start_ms, case.end_ms, case.step_ms or 0
    expected: dict[Labels, list[Item]] = dict(case.series)
    if case.scalar is not None:
        expected[Labels()] = [case.scalar]
    for labels, items in expected.items():
        wanted = {start + n * step: item for n, item in enumerate(items) if item is not None}
        if wanted and max(wanted) > end:
            raise MismatchError(f"{labels} {listed(items)}", "a range that ends before that")
        points = rows.get(labels, {})
        same = points.keys() == wanted.keys() and all(
            _close(item, points[time]) for time, item in wanted.items()
        )
        if not same:
            given = _on_grid(points, start, step)
            raise MismatchError(f"{labels} {listed(items)}", f"{labels} {given}")
    for labels, points in rows.items():
        if labels not in expected:
            given = _on_grid(points, start, step)
            raise MismatchError("no further series", f"{labels} {given}")


def check_equal(wanted: Answer, found: Answer) -> None:
    """Another way to evaluate gave the same bits; any NaN is the same as any other."""
    if (wanted.string, wanted.is_scalar) != (found.string, found.is_scalar):
        raise MismatchError(described(wanted), described(found))
    for labels in sorted(wanted.rows.keys() | found.rows.keys()):
        one, other = wanted.rows.get(labels, {}), found.rows.get(labels, {})
        if _bits(one) != _bits(other):
            raise MismatchError(f"{labels} {_timed(one)}", f"{labels} {_timed(other)}")


def check_notes(wanted: Answer, found: Answer) -> None:
    """The same warnings and infos."""
    for one, other in ((wanted.warnings, found.warnings), (wanted.infos, found.infos)):
        if set(one) != set(other):
            raise MismatchError(f"notes {sorted(one)}", f"notes {sorted(other)}")


def _bits(points: Points) -> dict[int, bytes]:
    return {
        time: b"nan" if math.isnan(value) else struct.pack("d", value)
        for time, value in points.items()
    }


def _close(item: Item, got: float) -> bool:
    if not isinstance(item, float):
        return False
    if math.isnan(item) or math.isnan(got):
        return math.isnan(item) and math.isnan(got)
    if item == got:
        return True
    magnitude, difference = abs(item) + abs(got), abs(item - got)
    if 0 in (item, got) or magnitude < SMALLEST_NORMAL:
        return difference < EPSILON * SMALLEST_NORMAL
    return difference / min(magnitude, LARGEST) < EPSILON


def _on_grid(points: Points, start: int, step: int) -> str:
    if not step or any((time - start) % step for time in points):
        return listed(points.values()) if set(points) <= {start} else _timed(points)
    last = max(points, default=start)
    return (
        listed(points.get(time) for time in range(start, last + 1, step)) if points else "nothing"
    )


def _timed(points: Points) -> str:
    return " ".join(f"{value!r}@{time / 1000:g}s" for time, value in points.items()) or "nothing"


def listed(values: Iterable[Item]) -> str:
    """Values as a script writes them."""
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


def described(found: Answer) -> str:
    """A whole result in a few words."""
    if found.string is not None:
        return f"the string {found.string!r}"
    if found.is_scalar:
        return f"a scalar {listed(found.rows.get(Labels(), {}).values())}"
    rows = [f"{labels} {listed(points.values())}" for labels, points in found.rows.items()]
    return "a vector, " + (", ".join(rows[:5]) or "of no series") + (", ..." if rows[5:] else "")


def _names(labels: Iterable[Labels]) -> str:
    return ", ".join(str(one) for one in labels) or "nothing"
