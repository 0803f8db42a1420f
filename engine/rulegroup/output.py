"""What evaluating one rule at some times gives, and the series it writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from engine.series import STALE_NAN, Series

if TYPE_CHECKING:
    from engine.alerts.alert import Alert
    from engine.labels import Labels
    from engine.series import Float64Array


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

    `transitions`: alerts that fired or resolved, in the order of time. `cleared`: firing alerts
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
    """Gathers samples one time after another and marks what has gone."""

    def __init__(self, previous: frozenset[Labels]) -> None:
        self.present = previous
        self._columns: dict[Labels, tuple[list[int], list[float | None]]] = {}

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

    def series(self) -> list[Series]:
        """Everything written, sorted by labels."""
        return [
            Series(labels, np.array(times, dtype=np.int64), _marked(values))
            for labels, (times, values) in sorted(self._columns.items())
        ]


def _marked(values: list[float | None]) -> Float64Array:
    """float64[N], None turned into the staleness marker."""
    array = np.array([0.0 if value is None else value for value in values], dtype=np.float64)
    array[[value is None for value in values]] = STALE_NAN
    return array
