"""What evaluating one rule at some times gives, and the series it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.series import STALE_NAN, Series
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.alerts.alert import Alert
    from engine.labels import Labels
    from engine.series import BoolArray, Float64Array, Int64Array


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """A rule that failed at a time: it wrote nothing and changed no alert (but see `limit`).

    `place`: `file:line:column` of the guilty part of its expression, "" where there is none.
    """

    rule: str
    time_ms: int
    message: str
    place: str = ""


@dataclass(slots=True)
class RuleOutput:
    """`series`: samples and staleness markers, in the order of their times, per series.

    `transitions`: alerts that fired or resolved, in the order of time; along an axis only those
    that resolved, since each tells when it fired. `cleared`: firing alerts
    that went without a resolution, because the rule exceeded its limit. `evaluations`: how often
    the rule ran, failures included.
    """

    series: list[Series] = field(default_factory=list)
    transitions: list[Alert] = field(default_factory=list)
    cleared: list[Alert] = field(default_factory=list)
    failures: list[RuleFailure] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)
    evaluations: int = 0


class SampleColumns:
    """Gathers samples, one time after another or along a stretch, and marks what has gone."""

    def __init__(self, previous: frozenset[Labels]) -> None:
        self.present = previous
        self._columns: dict[Labels, tuple[list[int], list[float | None]]] = {}
        self._stretches: dict[Labels, list[tuple[Int64Array, Float64Array]]] = {}

    def write(self, timestamp_ms: int, samples: dict[Labels, float]) -> None:
        """All of the rule's samples at one time; times grow from call to call."""
        for labels, value in samples.items():
            times, values = self._columns.setdefault(labels, ([], []))
            times.append(timestamp_ms)
            values.append(value)
        for labels in self.present.difference(samples):
            times, values = self._columns.setdefault(labels, ([], []))
            times.append(timestamp_ms)
            values.append(None)
        self.present = frozenset(samples)

    def write_along(
        self, stamps_ms: Int64Array, rows: Iterable[tuple[Labels, BoolArray, Float64Array]]
    ) -> None:
        """All of the rule's samples at int64[T] times, which are not none.

        `rows`: distinct labels, bool[T] where there is a sample, float64[T].
        """
        gone = set(self.present)
        still = set()
        for labels, there, values in rows:
            gone.discard(labels)
            before = np.concatenate(([labels in self.present], there[:-1]))
            ends = before & ~there
            written = there | ends
            column = values.copy()
            column[ends] = STALE_NAN
            self._settle(labels).append((stamps_ms[written], column[written]))
            if there[-1]:
                still.add(labels)
        for labels in gone:
            self._settle(labels).append((stamps_ms[:1], np.array([STALE_NAN])))
        self.present = frozenset(still)

    def series(self) -> list[Series]:
        """Everything written, sorted by labels."""
        for labels in list(self._columns):
            self._settle(labels)
        return [
            Series(labels, np.concatenate(times), np.concatenate(values))
            for labels, (times, values) in sorted(
                (labels, tuple(zip(*stretches, strict=True)))
                for labels, stretches in self._stretches.items()
                if stretches
            )
        ]

    def _settle(self, labels: Labels) -> list[tuple[Int64Array, Float64Array]]:
        """The stretches of a series, with what was written time by time as the last of them."""
        stretches = self._stretches.setdefault(labels, [])
        column = self._columns.pop(labels, None)
        if column is not None:
            stretches.append((np.array(column[0], dtype=np.int64), _marked(column[1])))
        return stretches


def _marked(values: list[float | None]) -> Float64Array:
    """float64[N], None turned into the staleness marker."""
    array = np.array([0.0 if value is None else value for value in values], dtype=np.float64)
    array[[value is None for value in values]] = STALE_NAN
    return array
