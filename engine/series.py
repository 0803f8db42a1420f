"""Samples in columns: a series is labels, times and values; the staleness marker is a NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.labels import Labels
    from rules.promql.ast import Matcher

Int64Array: TypeAlias = npt.NDArray[np.int64]
Float64Array: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
TextArray: TypeAlias = npt.NDArray[np.object_]
Picked: TypeAlias = "slice | BoolArray | npt.NDArray[np.intp]"

# Prometheus' staleness marker (model/value/value.go): a signalling NaN told from every other NaN
# by its exact bits. Never compute with it, or the bits change; compare bits only.
STALE_BITS = 0x7FF0000000000002
STALE_NAN = np.uint64(STALE_BITS).view(np.float64)


def stale_mask(values: Float64Array) -> BoolArray:
    """True where a value is the staleness marker. Ordinary NaN is data."""
    mask: BoolArray = np.ascontiguousarray(values).view(np.uint64) == np.uint64(STALE_BITS)
    return mask


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One stored series.

    `timestamps_ms`: int64[N], unix milliseconds, strictly increasing. `values`: float64[N],
    staleness markers included. Series that were sampled together may share one `timestamps_ms`
    array object, which lets the evaluator share window bounds.

    `histograms`: None, or object[N]: the text of each sample that is a native histogram, as it was
    read, None for a float. A histogram's value is NaN and means nothing. `starts_ms`: None, or
    int64[N]: since when each sample of a counter has been counting (its start timestamp), 0 where
    unknown.

    Whoever makes a series from others uses the methods below, so that both are kept.
    """

    labels: Labels
    timestamps_ms: Int64Array
    values: Float64Array
    histograms: TextArray | None = None
    starts_ms: Int64Array | None = None

    @property
    def is_plain(self) -> bool:
        """Whether there are floats only, and no start timestamps: nearly always."""
        return self.histograms is None and self.starts_ms is None

    @property
    def histogram_mask(self) -> BoolArray | None:
        """bool[N], True where a sample is a native histogram; None if none is."""
        if self.histograms is None:
            return None
        texts = self.histograms
        return np.fromiter((text is not None for text in texts), np.bool_, texts.size)

    def picked(self, index: Picked, timestamps_ms: Int64Array | None = None) -> Series:
        """Some of the samples. `timestamps_ms`: their times, where they are to be shared."""
        times = self.timestamps_ms[index] if timestamps_ms is None else timestamps_ms
        if self.is_plain:
            return Series(self.labels, times, self.values[index])
        histograms = None if self.histograms is None else self.histograms[index]
        if histograms is not None and all(text is None for text in histograms):
            histograms = None
        starts = None if self.starts_ms is None else self.starts_ms[index]
        return Series(self.labels, times, self.values[index], histograms, starts)

    def renewed(self, labels: Labels, timestamps_ms: Int64Array) -> Series:
        """The same samples under other labels, with an array of the same times that is shared.

        What no sample has is left out.
        """
        if self.is_plain:
            return Series(labels, timestamps_ms, self.values)
        texts, starts = self.histograms, self.starts_ms
        if texts is not None and all(text is None for text in texts):
            texts = None
        if starts is not None and not starts.any():
            starts = None
        return Series(labels, timestamps_ms, self.values, texts, starts)

    def relabelled(self, labels: Labels) -> Series:
        """The same samples under other labels."""
        return Series(labels, self.timestamps_ms, self.values, self.histograms, self.starts_ms)

    @classmethod
    def joined(
        cls,
        parts: Sequence[Series],
        order: npt.NDArray[np.intp] | None = None,
        timestamps_ms: Int64Array | None = None,
    ) -> Series:
        """The samples of all parts, one after the other, with the first part's labels.

        `order`: which of those samples, None for all of them as they come. `timestamps_ms`: the
        result's times, where they are at hand to be shared.
        """
        if timestamps_ms is None:
            timestamps_ms = np.concatenate([one.timestamps_ms for one in parts])
            timestamps_ms = timestamps_ms if order is None else timestamps_ms[order]
        values = np.concatenate([one.values for one in parts])
        histograms: TextArray | None = None
        starts: Int64Array | None = None
        if any(one.histograms is not None for one in parts):
            none = np.array([None], dtype=np.object_)
            histograms = np.concatenate(
                [
                    np.broadcast_to(none, one.values.shape)
                    if one.histograms is None
                    else one.histograms
                    for one in parts
                ]
            )
        if any(one.starts_ms is not None for one in parts):
            starts = np.concatenate(
                [
                    np.zeros(one.values.size, dtype=np.int64)
                    if one.starts_ms is None
                    else one.starts_ms
                    for one in parts
                ]
            )
        if order is not None:
            values = values[order]
            histograms = None if histograms is None else histograms[order]
            starts = None if starts is None else starts[order]
        return cls(parts[0].labels, timestamps_ms, values, histograms, starts)


class Queryable(Protocol):
    """What the evaluator reads from: the live store, a recording, a file."""

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """Series that match all matchers, cut to start_ms <= t <= end_ms, empty ones left out.

        Sorted by labels. A matcher that accepts "" also accepts a series without the label.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Plain series that were sampled together, as one matrix: what a live window holds.

    `labels`: S label sets, sorted; the same tuple object from one call to the next as long as it is
    the same series, so that what is worked out from labels need not be worked out again.
    `timestamps_ms`: int64[N]. `values`: float64[S, N], staleness markers included. `present`:
    bool[S, N], or None where every series has a sample at every time. A row may have none at all.
    """

    labels: tuple[Labels, ...]
    timestamps_ms: Int64Array
    values: Float64Array
    present: BoolArray | None = None


@runtime_checkable
class Tabular(Protocol):
    """A Queryable that can hand out its series without an object for each."""

    def table(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Table | None:
        """What `select` gives, as a matrix; None if it is to be asked instead."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series; `timestamp_ms` is unix milliseconds."""

    labels: Labels
    timestamp_ms: int
    value: float
