"""A recording rule over evaluation times: what it writes and where its series go stale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.labels import METRIC_NAME, Labels
from engine.promql.value import Vector
from engine.rulegroup.output import RuleFailure, RuleOutput
from engine.rulegroup.state import RuleState
from engine.series import STALE_NAN, Series

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from engine.rulegroup.rows import Part
    from engine.series import Int64Array
    from rules.model import RecordingRule

SAME_LABELS = "vector contains metrics with the same labelset after applying rule labels"


def record(
    rule: RecordingRule, limit: int, offset_ms: int, state: RuleState, parts: Iterable[Part]
) -> tuple[RuleState, RuleOutput]:
    """Apply the rule's name and labels; a time that fails writes nothing, markers included.

    Follows Prometheus' rules/recording.go for the checks and rules/group.go for the markers.
    """
    output = RuleOutput()
    present = state.series
    for part in parts:
        output.evaluations += len(part.times_ms)
        output.warnings.update(dict.fromkeys(part.warnings))
        if part.rows is None:
            output.failures.append(
                RuleFailure(rule.name, int(part.times_ms[0]), part.error, part.place)
            )
            continue
        labels = _written(rule, part.rows.labels)
        rows, wrong = part.rows, dict[int, str]()
        if len(set(labels)) < len(labels):
            labels, rows, wrong = _merged(labels, rows)
        counts = rows.present.sum(axis=0)
        for index in np.flatnonzero(counts > limit).tolist() if limit else ():
            wrong.setdefault(index, f"exceeded limit of {limit} with {counts[index]} series")
        output.failures += [
            RuleFailure(rule.name, int(part.times_ms[index]), wrong[index])
            for index in sorted(wrong)
        ]
        good = None if not wrong else np.delete(np.arange(len(part.times_ms)), list(wrong))
        if good is None or good.size:
            times_ms = part.times_ms if good is None else part.times_ms[good]
            series, present = _write(labels, rows, times_ms - offset_ms, good, present)
            output.series.extend(series)
    return RuleState(series=present), output


def _written(rule: RecordingRule, labels: Sequence[Labels]) -> tuple[Labels, ...]:
    """The label set under which each row is written."""
    own = {**rule.labels, METRIC_NAME: rule.name}
    return tuple(one.merged(own) for one in labels)


def _merged(
    labels: Sequence[Labels], rows: Vector
) -> tuple[tuple[Labels, ...], Vector, dict[int, str]]:
    """Rows that are written as one series become one row; where two are present, the reason."""
    groups: dict[Labels, list[int]] = {}
    for row, own in enumerate(labels):
        groups.setdefault(own, []).append(row)
    steps = np.arange(rows.present.shape[1])
    values = np.empty((len(groups), steps.size))
    present = np.empty((len(groups), steps.size), dtype=np.bool_)
    wrong: dict[int, str] = {}
    for number, own_rows in enumerate(groups.values()):
        there = rows.present[own_rows]
        values[number] = rows.values[own_rows][there.argmax(axis=0), steps]
        present[number] = there.any(axis=0)
        for step in np.flatnonzero(there.sum(axis=0) > 1).tolist():
            wrong[step] = SAME_LABELS
    return tuple(groups), Vector(tuple(groups), values, present), wrong


def _write(
    labels: Sequence[Labels],
    rows: Vector,
    stamps: Int64Array,
    good: npt.NDArray[np.intp] | None,
    previous: frozenset[Labels],
) -> tuple[list[Series], frozenset[Labels]]:
    """The series over the good steps (None: all), and which of them are there at the last one.

    Series that are written at the same times share their timestamps.
    """
    shared: dict[bytes, Int64Array] = {}
    series = []
    still = set()
    for row in sorted(range(len(labels)), key=lambda row: labels[row]):
        own, values, present = labels[row], rows.values[row], rows.present[row]
        if good is not None:
            values, present = values[good], present[good]
        if present[-1]:
            still.add(own)
        if present.all():
            series.append(Series(own, stamps, values))
            continue
        before = np.concatenate(([own in previous], present[:-1]))
        gone = before & ~present
        written = present | gone
        if written.any():
            column = values.copy()
            column[gone] = STALE_NAN
            key = written.tobytes()
            if key not in shared:
                shared[key] = stamps[written]
            series.append(Series(own, shared[key], column[written]))
    series.extend(
        Series(own, stamps[:1], np.array([STALE_NAN]))
        for own in sorted(previous.difference(labels))
    )
    return series, frozenset(still)
