"""Native histograms: which samples are some, and where that matters.

Only floats are computed with. A histogram is an element like any other where only its presence or
its labels count; where Prometheus drops histograms they are dropped, with its annotation; where
one would decide a value, the evaluation is refused (NeedsNativeHistograms).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import NeedsNativeHistograms
from engine.promql.grouping import Groups
from engine.series import stale_mask
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.promql.context import Context
    from engine.promql.frame import Frame
    from engine.promql.rows import Group, Rows
    from engine.promql.windows import IndexArray
    from engine.series import BoolArray, Float64Array, Int64Array
    from rules.promql.ast import Aggregate
    from rules.source import Span


@dataclass(frozen=True, slots=True, eq=False)
class NativeRow:
    """A row of a range vector that has histogram samples.

    `times_ms`: all samples less staleness markers. `texts`: for each of them the histogram as
    read, None for a float; "" is a histogram that an expression made. `starts_ms`: start
    timestamps, 0 where unknown; None if they are not to be looked at. `values`: the floats.
    """

    row: int
    labels: Labels
    times_ms: Int64Array
    texts: tuple[str | None, ...]
    values: Float64Array
    starts_ms: Int64Array | None = None

    @property
    def native(self) -> BoolArray:
        """Which samples are histograms."""
        return np.array([text is not None for text in self.texts], dtype=np.bool_)


def unseen(group: Group, values: Float64Array) -> BoolArray:
    """Samples that no function of floats sees, [R, N]: staleness markers and histograms."""
    gone = stale_mask(values)
    for place, one in enumerate(group.series or ()):
        mask = one.histogram_mask
        if mask is not None:
            gone[place] |= mask
    return gone


def native_rows(rows: Rows, *, starts: bool) -> tuple[NativeRow, ...]:
    """The rows of a selector that have histogram samples."""
    found = []
    for group in rows.groups:
        if group.series is None:
            continue
        for row, one in zip(group.rows.tolist(), group.series, strict=True):
            if one.histograms is None:
                continue
            kept = one.picked(~stale_mask(one.values))
            if kept.histograms is not None:
                own_starts = kept.starts_ms if starts else None
                texts = tuple(kept.histograms.tolist())
                found.append(
                    NativeRow(row, one.labels, kept.timestamps_ms, texts, kept.values, own_starts)
                )
    return tuple(found)


def native_rows_of_frame(frame: Frame, times_ms: Int64Array) -> tuple[NativeRow, ...]:
    """The rows of a subquery's inner vector that are histograms at some step."""
    native = frame.native()
    if native is None:
        return ()
    found = []
    for row in np.flatnonzero(native.any(axis=1)).tolist():
        here = frame.present[row]
        texts = tuple("" if one else None for one in native[row][here].tolist())
        values = frame.values[row][here]
        found.append(NativeRow(row, frame.labels[row], times_ms[here], texts, values))
    return tuple(found)


def mark(
    mask: BoolArray | None, group: Group, index: IndexArray, shape: tuple[int, int]
) -> BoolArray:
    """Note in `mask`, [S, T], which of the samples `index`, [T], of a group are histograms."""
    mask = np.zeros(shape, dtype=np.bool_) if mask is None else mask
    for row, one in zip(group.rows.tolist(), group.series or (), strict=True):
        own = one.histogram_mask
        if own is not None:
            mask[row] = own[index]
    return mask


def refuse(frame: Frame, what: str, span: Span) -> Frame:
    """The frame, if no present element is a histogram. Raises NeedsNativeHistograms."""
    if frame.native() is not None:
        raise NeedsNativeHistograms(what, span)
    return frame


def for_aggregator(context: Context, node: Aggregate, frame: Frame) -> Frame:
    """A vector as an aggregator takes it: floats, or for those that only count, all elements.

    Raises NeedsNativeHistograms where a sum or mean would be a histogram.
    """
    native = frame.native()
    if native is None or node.op in ("count", "group"):
        return frame if frame.histograms is None else replace(frame, histograms=None)
    if node.op not in ("sum", "avg"):
        whole = node.op in ("topk", "bottomk")
        context.notes.ignored_in_aggregation(node.op, node.span if whole else node.expr.span)
        return frame.without_histograms()
    floats, present = frame.present & ~native, frame.present.copy()
    for rows in Groups.of(frame.labels, node).members:
        histograms, others = native[rows].any(axis=0), floats[rows].any(axis=0)
        if (histograms & ~others).any():
            raise NeedsNativeHistograms(node.op, node.expr.span)
        if histograms.any():
            context.notes.mixed_aggregation(node.expr.span)
            present[rows] &= ~histograms
    return replace(frame, present=present, histograms=None)
