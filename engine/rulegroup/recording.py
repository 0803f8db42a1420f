"""A recording rule over evaluation times: what it writes and where its series go stale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.labels import METRIC_NAME, Labels
from engine.promql.value import Vector
from engine.rulegroup.output import RuleFailure, RuleOutput
from engine.rulegroup.state import RuleState
from engine.series import STALE_NAN, Series
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from engine.rulegroup.rows import Part
    from engine.series import BoolArray, Int64Array
    from rules.model import RecordingRule

SAME_LABELS = "vector contains metrics with the same labelset after applying rule labels"


@dataclass(frozen=True, slots=True)
class Named:
    """The label sets under which rows are written, their order, and all of them."""

    labels: tuple[Labels, ...]
    order: tuple[int, ...]
    every: frozenset[Labels]

    @classmethod
    def of(cls, labels: tuple[Labels, ...]) -> Named:
        """Label sets in the order of their rows."""
        order = sorted(range(len(labels)), key=lambda row: labels[row])
        return cls(labels, tuple(order), frozenset(labels))


class Naming:
    """Names the rows of one rule: from time to time they are the same ones."""

    def __init__(self, rule: RecordingRule) -> None:
        self._own = {**rule.labels, METRIC_NAME: rule.name}
        self._rows: tuple[Labels, ...] = ()
        self._named = Named.of(())

    def named(self, rows: tuple[Labels, ...]) -> Named:
        """The label set under which each row is written."""
        if rows is not self._rows:
            self._named = Named.of(tuple(one.merged(self._own) for one in rows))
            self._rows = rows
        return self._named


def record(
    rule: RecordingRule,
    limit: int,
    offset_ms: int,
    state: RuleState,
    parts: Iterable[Part],
    naming: Naming | None = None,
) -> tuple[RuleState, RuleOutput]:
    """Apply the rule's name and labels; a time that fails writes nothing, markers included.

    Follows Prometheus' rules/recording.go for the checks and rules/group.go for the markers.
    """
    output = RuleOutput()
    present = state.series
    naming = naming or Naming(rule)
    for part in parts:
        output.evaluations += len(part.times_ms)
        output.warnings.update(dict.fromkeys(part.warnings))
        if part.rows is None:
            output.failures.append(
                RuleFailure(rule.name, int(part.times_ms[0]), part.error, part.place)
            )
            continue
        named = naming.named(part.rows.labels)
        rows, wrong = part.rows, dict[int, str]()
        if len(named.every) < len(named.labels):
            labels, rows, wrong = _merged(named.labels, rows)
            named = Named.of(labels)
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
            series, present = _write(named, rows, times_ms - offset_ms, good, present)
            output.series.extend(series)
    return RuleState(series=present), output


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
    named: Named,
    rows: Vector,
    stamps: Int64Array,
    good: npt.NDArray[np.intp] | None,
    previous: frozenset[Labels],
) -> tuple[list[Series], frozenset[Labels]]:
    """The series over the good steps (None: all), and which of them are there at the last one.

    Series that are written at the same times share their timestamps.
    """
    every_value, every_present = rows.values, rows.present
    if good is not None:
        every_value, every_present = every_value[:, good], every_present[:, good]
    throughout: BoolArray = np.asarray(every_present.all(axis=1))
    shared: dict[bytes, Int64Array] = {}
    series = []
    for row in named.order:
        own, values = named.labels[row], every_value[row]
        if throughout[row]:
            series.append(Series(own, stamps, values))
            continue
        present = every_present[row]
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
    if previous is not named.every:
        series.extend(
            Series(own, stamps[:1], np.array([STALE_NAN]))
            for own in sorted(previous.difference(named.every))
        )
    if throughout.all():
        return series, named.every
    last = np.flatnonzero(every_present[:, -1]).tolist()
    return series, frozenset(named.labels[row] for row in last)
