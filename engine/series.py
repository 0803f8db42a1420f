"""Samples in columns: a series is labels, times and values; the staleness marker is a NaN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.labels import Labels
    from rules.promql.ast import Matcher

Int64Array: TypeAlias = npt.NDArray[np.int64]
Float64Array: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

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
    """

    labels: Labels
    timestamps_ms: Int64Array
    values: Float64Array


class Queryable(Protocol):
    """What the evaluator reads from: the live store, a recording, a file."""

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """Series that match all matchers, cut to start_ms <= t <= end_ms, empty ones left out.

        Sorted by labels. A matcher that accepts "" also accepts a series without the label.
        """
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series; `timestamp_ms` is unix milliseconds."""

    labels: Labels
    timestamp_ms: int
    value: float
