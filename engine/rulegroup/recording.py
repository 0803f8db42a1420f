"""A recording rule over evaluation times: what it writes and where its series go stale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.labels import METRIC_NAME, Labels
from engine.rulegroup.output import RuleFailure, RuleOutput
from engine.rulegroup.state import RuleState
from engine.series import STALE_NAN, Series

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.promql.value import Vector
    from engine.rulegroup.rows import Part
    from engine.series import BoolArray, Float64Array, Int64Array
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
        rows = _merge(rule, part.rows)
        wrong = _failures(rule, limit, rows, part.times_ms)
        output.failures.extend(wrong.values())
        good = np.array([i not in wrong for i in range(len(part.times_ms))], dtype=np.bool_)
        if good.any():
            stamps = part.times_ms[good] - offset_ms
            series, present = _write(rows, stamps, good, present)
            output.series.extend(series)
    return RuleState(series=present), output


_Rows = dict[Labels, tuple["Float64Array", "BoolArray", "Int64Array"]]


def _merge(rule: RecordingRule, rows: Vector) -> _Rows:
    """Per written label set: its values, where it is present, and by how many rows at once."""
    merged: _Rows = {}
    own = {**rule.labels, METRIC_NAME: rule.name}
    for labels, values, present in zip(rows.labels, rows.values, rows.present, strict=True):
        written = labels.merged(own)
        if written in merged:
            before, there, count = merged[written]
            values = np.where(present, values, before)  # noqa: PLW2901 - one row of several
            merged[written] = (values, there | present, count + present)
        else:
            merged[written] = (values, present, present.astype(np.int64))
    return merged


def _failures(
    rule: RecordingRule, limit: int, rows: _Rows, times_ms: Int64Array
) -> dict[int, RuleFailure]:
    """The positions in the part at which the rule fails."""
    width = len(times_ms)
    total = np.zeros(width, dtype=np.int64)
    twice = np.zeros(width, dtype=np.bool_)
    for _, _, count in rows.values():
        total += count
        twice |= count > 1
    failures = {}
    over = total > limit if limit else np.zeros(width, dtype=np.bool_)
    for index in np.flatnonzero(twice | over):
        message = SAME_LABELS
        if not twice[index]:
            message = f"exceeded limit of {limit} with {total[index]} series"
        failures[int(index)] = RuleFailure(rule.name, int(times_ms[index]), message)
    return failures


def _write(
    rows: _Rows, stamps: Int64Array, good: BoolArray, previous: frozenset[Labels]
) -> tuple[list[Series], frozenset[Labels]]:
    """The series over the good times, and which of them are there at the last one."""
    series = []
    still = set()
    for labels, (row, there, _) in sorted(rows.items()):
        values, present = row[good], there[good]
        before = np.concatenate(([labels in previous], present[:-1]))
        gone = before & ~present
        written = present | gone
        if written.any():
            column = values.copy()
            column[gone] = STALE_NAN
            series.append(Series(labels, stamps[written], column[written]))
        if present[-1]:
            still.add(labels)
    series.extend(
        Series(labels, stamps[:1], np.array([STALE_NAN]))
        for labels in sorted(previous.difference(rows))
    )
    return series, frozenset(still)
