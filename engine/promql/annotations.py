"""Warnings and infos that ride along with a result, worded as Prometheus words them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.labels import quote
from engine.promql.numbers import format_general
from rules.slotted import dataclass

if TYPE_CHECKING:
    from engine.series import BoolArray, Float64Array
    from rules.source import Source, Span


@dataclass(frozen=True, slots=True)
class Monotonicity:
    """Bucket counts that were raised: from which bound to which, the most, how often, and when."""

    least_bound: float
    largest_bound: float
    difference: float
    samples: int
    first_ms: int
    last_ms: int

    def joined(self, other: Monotonicity) -> Monotonicity:
        """Both together."""
        return Monotonicity(
            min(self.least_bound, other.least_bound),
            max(self.largest_bound, other.largest_bound),
            max(self.difference, other.difference),
            self.samples + other.samples,
            min(self.first_ms, other.first_ms),
            max(self.last_ms, other.last_ms),
        )

    def __str__(self) -> str:
        low, high = format_general(self.least_bound), format_general(self.largest_bound)
        first, last = (
            str(np.datetime64(time // 1000, "s")) + "Z" for time in (self.first_ms, self.last_ms)
        )
        return (
            f", from buckets {low} to {high}, with a max diff of {self.difference:.2g}, "
            f"over {self.samples} samples from {first} to {last}"
        )


class Annotations:
    """Collects annotations in order, each text once.

    `source` is the text the spans point into; without it an expression is taken as one line.
    """

    __slots__ = ("_infos", "_source", "_warnings")

    def __init__(self, source: Source | None = None) -> None:
        self._source = source
        self._warnings: dict[str, None] = {}
        # By text and place; what is to be told in between may still grow.
        self._infos: dict[tuple[str, str], Monotonicity | None] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings so far."""
        return tuple(self._warnings)

    @property
    def infos(self) -> tuple[str, ...]:
        """The infos so far."""
        return tuple(
            f"{text}{'' if detail is None else detail} ({place})"
            for (text, place), detail in self._infos.items()
        )

    def add(self, other: Annotations) -> None:
        """Take over another's, after those that are here."""
        self._warnings.update(other._warnings)
        for key, detail in other._infos.items():
            known = self._infos.get(key)
            self._infos[key] = detail if known is None or detail is None else known.joined(detail)

    def warn(self, text: str, span: Span) -> None:
        """Add a warning about a part of the expression."""
        self._warnings[f"PromQL warning: {text} ({self._place(span)})"] = None

    def inform(self, text: str, span: Span) -> None:
        """Add an info about a part of the expression."""
        self._infos[(f"PromQL info: {text}", self._place(span))] = None

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

    def forced_monotonicity(self, metric: str, found: Monotonicity, span: Span) -> None:
        """Inform that bucket counts went down and were repaired; one info for all steps."""
        text = (
            "PromQL info: input to histogram_quantile needed to be fixed for monotonicity (see "
            "https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)"
        )
        key = (text + _for_metric(metric), self._place(span))
        known = self._infos.get(key)
        self._infos[key] = found if known is None else known.joined(found)

    def mixed_floats_and_histograms(self, metric: str, span: Span) -> None:
        """Warn of a window with both, where a function takes only one kind."""
        text = f"encountered a mix of histograms and floats for metric name {quote(metric)}"
        self.warn(text, span)

    def mixed_aggregation(self, span: Span) -> None:
        """Warn of a group with both, where an aggregator takes only one kind."""
        self.warn("encountered a mix of histograms and floats for aggregation", span)

    def mixed_classic_and_native(self, metric: str, span: Span) -> None:
        """Warn of a histogram that is there in both forms at one step."""
        text = "vector contains a mix of classic and native histograms"
        self.warn(text + _for_metric(metric), span)

    def ignored_in_range(self, metric: str, span: Span) -> None:
        """Inform of histograms beside floats in a window, where only floats are looked at."""
        text = "ignored histograms in a range containing both floats and histograms"
        self.inform(f"{text} for metric name {quote(metric)}", span)

    def ignored_in_aggregation(self, aggregator: str, span: Span) -> None:
        """Inform of histograms that an aggregator does not look at."""
        self.inform(f"ignored histogram in {aggregator} aggregation", span)

    def incompatible_types(self, lhs: str, op: str, rhs: str, span: Span) -> None:
        """Inform of operands ("float", "histogram") that an operator does not take."""
        text = f"incompatible sample types encountered for binary operator {quote(op)}"
        self.inform(f"{text}: {lhs} {op} {rhs}", span)

    def overlapping_start(self, metric: str, span: Span) -> None:
        """Warn of a sample that began to count before the one before it was taken."""
        text = "sample has start time that overlaps with previous sample timestamp for metric"
        self.warn(f"{text} {quote(metric)}", span)

    def invalid_ratio(self, ratio: float, used: float, span: Span) -> None:
        """Warn of a ratio outside [-1, 1]."""
        got, cap = format_general(ratio), format_general(used)
        self.warn(f"ratio value should be between -1 and 1, got {got}, capping to {cap}", span)

    def _place(self, span: Span) -> str:
        if self._source is None:
            return f"1:{span.start + 1}"
        line, column = self._source.position(span.start)
        return f"{line}:{column}"


def _for_metric(metric: str) -> str:
    return f" for metric name {quote(metric)}" if metric else ""
