"""The `*_over_time` family: folds of the samples in a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.quantiles import quantile
from engine.promql.summation import Mean, Sum, is_plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.context import Context
    from engine.promql.frame import Frame
    from engine.promql.windows import Block, Folded, Kernel, Windows
    from engine.series import BoolArray, Float64Array
    from rules.promql.ast import Call


def sum_over_time(block: Block) -> Folded:
    """Compensated sum."""
    total = Sum.zero(block.shape, plain=is_plain(block.values))
    for _, columns, index in block.walk():
        total.add(block.at(index), columns)
    infinite = np.isinf(total.total)
    return np.where(infinite, total.total, total.result()), block.where(block.widths > 0)


def avg_over_time(block: Block) -> Folded:
    """Compensated mean that does not overflow."""
    present = block.where(block.widths > 0)
    first = block.at(block.lo)
    if is_plain(block.values):
        total = Sum.of(first, plain=True)
        for _, columns, index in block.walk(first=1):
            total.add(block.at(index), columns)
        return total.total / block.widths + total.carry / block.widths, present
    mean = Mean.of(first)
    for _, columns, index in block.walk(first=1):
        mean.add(block.at(index), columns)
    return mean.result(), present


def stdvar_over_time(block: Block) -> Folded:
    """Population variance, by Welford's update with compensation; 0 for a constant."""
    values = block.values
    plain = is_plain(values) and is_plain(values * values)
    mean, squares = Sum.zero(block.shape, plain=plain), Sum.zero(block.shape, plain=plain)
    for number, columns, index in block.walk():
        value = block.at(index)
        away = value - (mean.total[:, columns] + mean.carry[:, columns])
        mean.add(away / (number + 1), columns)
        centre = mean.total[:, columns] + mean.carry[:, columns]
        squares.add(away * (value - centre), columns)
    return squares.result() / block.widths, block.where(block.widths > 0)


def stddev_over_time(block: Block) -> Folded:
    """Population standard deviation."""
    variance, present = stdvar_over_time(block)
    return np.sqrt(variance), present


def count_over_time(block: Block) -> Folded:
    """The number of samples."""
    counts = np.broadcast_to(block.widths.astype(np.float64), block.shape)
    return counts, block.where(block.widths > 0)


def present_over_time(block: Block) -> Folded:
    """1 where there is any sample."""
    return np.ones(block.shape), block.where(block.widths > 0)


def first_over_time(block: Block) -> Folded:
    """The oldest sample."""
    return block.at(block.lo), block.where(block.widths > 0)


def last_over_time(block: Block) -> Folded:
    """The newest sample."""
    return block.at(block.hi - 1), block.where(block.widths > 0)


def ts_of_first_over_time(block: Block) -> Folded:
    """When the oldest sample was taken, in seconds."""
    times = block.times_at(block.lo) / 1000
    return np.broadcast_to(times, block.shape), block.where(block.widths > 0)


def ts_of_last_over_time(block: Block) -> Folded:
    """When the newest sample was taken, in seconds."""
    times = block.times_at(block.hi - 1) / 1000
    return np.broadcast_to(times, block.shape), block.where(block.widths > 0)


def _extreme(beats: Callable[[Float64Array, Float64Array], BoolArray], *, when: bool) -> Kernel:
    """The value that beats all before it, or the time of it. Any number beats NaN."""

    def kernel(block: Block) -> Folded:
        best = block.at(block.lo)
        times = np.broadcast_to(block.times_at(block.lo), block.shape).copy()
        for _, columns, index in block.walk():
            value, held = block.at(index), best[:, columns]
            wins = beats(value, held) | np.isnan(held)
            best[:, columns] = np.where(wins, value, held)
            if when:
                times[:, columns] = np.where(wins, block.times_at(index), times[:, columns])
        return (times / 1000 if when else best), block.where(block.widths > 0)

    return kernel


max_over_time = _extreme(lambda value, held: value > held, when=False)
min_over_time = _extreme(lambda value, held: value < held, when=False)
# The time is that of the newest among equals, hence "or equal".
ts_of_max_over_time = _extreme(lambda value, held: value >= held, when=True)
ts_of_min_over_time = _extreme(lambda value, held: value <= held, when=True)


def _gathered(block: Block) -> tuple[Float64Array, BoolArray]:
    """All samples of all windows: values[S, T, W] and which of them exist, [T, W]."""
    offsets = np.arange(int(block.widths.max(initial=0)))
    index = block.lo[:, None] + offsets
    exists = offsets < block.widths[:, None]
    return block.at(index.ravel()).reshape(*block.shape, offsets.size), exists


def _column_chunks(block: Block) -> list[slice]:
    """Steps in chunks, so that gathered windows stay small."""
    width = max(1, int(block.widths.max(initial=0)))
    step = max(1, 2**20 // (width * max(1, block.shape[0])))
    return [slice(start, start + step) for start in range(0, block.shape[1], step)]


def _in_chunks(block: Block, kernel: Kernel) -> Folded:
    values = np.zeros(block.shape)
    for chunk in _column_chunks(block):
        values[:, chunk] = kernel(block.columns(chunk))[0]
    return values, block.where(block.widths > 0)


def quantile_over_time(block: Block) -> Folded:
    """The φ-quantile (param 0), linear between ranks; NaN sorts first."""

    def kernel(part: Block) -> Folded:
        values, exists = _gathered(part)
        found = quantile(part.params[0], values, np.broadcast_to(exists, values.shape))
        return found, part.where(part.widths > 0)

    return _in_chunks(block, kernel)


def mad_over_time(block: Block) -> Folded:
    """The median absolute deviation from the median; NaN if any sample is."""

    def kernel(part: Block) -> Folded:
        values, exists = _gathered(part)
        everywhere = np.broadcast_to(exists, values.shape)
        half = np.full(part.shape[1], 0.5)
        median = quantile(half, values, everywhere)
        away = quantile(half, np.abs(values - median[..., None]), everywhere)
        away = np.where((everywhere & np.isnan(values)).any(axis=-1), np.nan, away)
        return away, part.where(part.widths > 0)

    return _in_chunks(block, kernel)


def quantile_in_range(
    context: Context,
    call: Call,
    _windows: Windows,
    frame: Frame,
    scalars: tuple[Float64Array, ...],
) -> None:
    """Warn of a φ outside [0, 1]."""
    context.notes.check_quantiles(scalars[0], frame.present, call.args[0].span)
