"""Warnings and infos that ride along with a result, worded as Prometheus words them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.labels import quote
from engine.promql.numbers import format_general

if TYPE_CHECKING:
    from engine.series import BoolArray, Float64Array
    from rules.source import Source, Span


class Annotations:
    """Collects annotations in order, each text once.

    `source` is the text the spans point into; without it an expression is taken as one line.
    """

    __slots__ = ("_infos", "_source", "_warnings")

    def __init__(self, source: Source | None = None) -> None:
        self._source = source
        self._warnings: dict[str, None] = {}
        self._infos: dict[str, None] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings so far."""
        return tuple(self._warnings)

    @property
    def infos(self) -> tuple[str, ...]:
        """The infos so far."""
        return tuple(self._infos)

    def add(self, other: Annotations) -> None:
        """Take over another's, after those that are here."""
        self._warnings.update(other._warnings)
        self._infos.update(other._infos)

    def warn(self, text: str, span: Span) -> None:
        """Add a warning about a part of the expression."""
        self._warnings[f"PromQL warning: {text} ({self._place(span)})"] = None

    def inform(self, text: str, span: Span) -> None:
        """Add an info about a part of the expression."""
        self._infos[f"PromQL info: {text} ({self._place(span)})"] = None

    def check_quantiles(self, quantiles: Float64Array, present: BoolArray, span: Span) -> None:
        """Warn of each φ, [T], outside [0, 1] at a step where some row, [S, T], is present."""
        bad = present.any(axis=0) & ~((quantiles >= 0) & (quantiles <= 1))
        for value in np.unique(quantiles[bad]).tolist():
            got = format_general(value)
            self.warn(f"quantile value should be between 0 and 1, got {got}", span)

    def possible_non_counter(self, metric: str, span: Span) -> None:
        """Inform that `rate` reads something whose name is not a counter's."""
        self.inform(
            "metric might not be a counter, name does not end in "
            f"_total/_sum/_count/_bucket: {quote(metric)}",
            span,
        )

    def bad_bucket(self, metric: str, value: str, span: Span) -> None:
        """Warn of a bucket whose `le` is missing or no number."""
        text = f'bucket label "le" is missing or has a malformed value of {quote(value)}'
        self.warn(text + _for_metric(metric), span)

    def forced_monotonicity(self, metric: str, span: Span) -> None:
        """Inform that bucket counts went down and were repaired."""
        text = (
            "input to histogram_quantile needed to be fixed for monotonicity (see "
            "https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)"
        )
        self.inform(text + _for_metric(metric), span)

    def _place(self, span: Span) -> str:
        if self._source is None:
            return f"1:{span.start + 1}"
        line, column = self._source.position(span.start)
        return f"{line}:{column}"


def _for_metric(metric: str) -> str:
    return f" for metric name {quote(metric)}" if metric else ""
