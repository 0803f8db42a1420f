"""Quantiles of windows: by comparator networks where windows slide evenly, else by sorting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.cells import count, for_each
from engine.promql.networks import network, run
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.bounds import IndexArray
    from engine.promql.cells import Gathered
    from engine.promql.windows import Block
    from engine.series import Float64Array

# A network for more slots takes longer to make than it saves.
LARGEST_WIDTH = 512
# Up to here each pair of ranks has a network of its own.
FINE_WIDTH = 64
# Fewer steps are not worth one.
FEWEST_STEPS = 64
# A number of samples that fewer windows than this have is left to sorting.
RARE = 1 / 100
MOST_RANKS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """Between which of its sorted samples a quantile of each window lies, and how near the upper.

    As Prometheus ranks them (promql/quantile.go): linear between neighbours. [T] or [S, T].
    """

    lower: IndexArray
    upper: IndexArray
    weight: Float64Array

    @classmethod
    def of(cls, phi: Float64Array | float, counts: Float64Array) -> Ranks:
        """For windows of so many samples; φ from 0 to 1, anything else is read as 0."""
        usable = np.where((np.asarray(phi) >= 0) & (np.asarray(phi) <= 1), phi, 0.0)
        position = usable * (counts - 1)
        floor = np.floor(position)
        lower = np.maximum(floor, 0.0).astype(np.intp)
        upper = np.minimum(lower + 1, np.maximum(counts - 1, 0.0).astype(np.intp))
        return cls(lower, upper, position - floor)

    def at(self, places: IndexArray) -> Ranks:
        """Some of them."""
        return Ranks(self.lower[places], self.upper[places], self.weight[places])

    def between(self, low: Float64Array, high: Float64Array) -> Float64Array:
        """The quantiles, of the samples with these ranks. A zero has no sign."""
        found = low * (1 - self.weight)
        found += high * self.weight
        found += 0.0
        return found


def window_quantiles(block: Block, phi: Float64Array) -> Float64Array:
    """The φ-quantile, [T], of each window, NaN sorting first: [S, T]."""
    level = float(phi[0]) if phi.size else 0.0
    even = bool((phi == level).all()) and 0 <= level <= 1
    found = _slid(block, level) if even else None
    if found is None:
        cells = np.flatnonzero(block.filled)
        found = np.zeros(block.shape)
        found.reshape(-1)[cells] = for_each(block, cells, Sorting(phi), np.inf)
    if not even:
        found = np.where(phi < 0, -np.inf, np.where(phi > 1, np.inf, found))
        found[:, np.isnan(phi)] = np.nan
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Sorting:
    """Quantiles of gathered windows, filled up with +Inf. φ per step, [T]."""

    phi: Float64Array

    def __call__(self, windows: Gathered) -> Float64Array:
        """One for each window."""
        values = windows.values
        if windows.exists is None:
            counts = np.full(values.shape[0], float(values.shape[1]))
        else:
            counts = windows.exists.sum(axis=1).astype(np.float64)
        return sorted_quantiles(self.phi[windows.columns], values, counts)


def sorted_quantiles(
    phi: Float64Array | float, values: Float64Array, counts: Float64Array
) -> Float64Array:
    """The φ-quantile of each row, [C, W], of so many values and then +Inf. Sorts `values`."""
    nan = np.isnan(values)
    spoilt = nan.sum(axis=1) if nan.any() else None
    if spoilt is not None:
        values[nan] = -np.inf
    values.sort(axis=1)
    ranks = Ranks.of(phi, counts)
    rows = np.arange(values.shape[0])
    found = ranks.between(values[rows, ranks.lower], values[rows, ranks.upper])
    if spoilt is not None:
        found[ranks.lower < spoilt] = np.nan
    return found


def _slid(block: Block, level: float) -> Float64Array | None:
    """By a network; None where windows do not slide evenly enough for one."""
    if block.shape[1] < FEWEST_STEPS:
        return None
    slots = _slots(block)
    if slots is None or slots.width > LARGEST_WIDTH:
        return None
    widths = block.widths
    share = np.bincount(widths.ravel())
    # What windows of no sample, one, two, … ask for.
    table = Ranks.of(level, np.arange(share.size, dtype=np.float64))
    wanted = _wanted(share, table)
    if wanted is None:
        return None
    lowest, highest = wanted
    if slots.width > FINE_WIDTH:
        # A large network takes long to make: one for several ranks serves more blocks.
        lowest, highest = lowest & ~3, min(highest | 3, slots.width - 1)
    samples = _found_ranks(slots, block.shape, lowest, highest)
    # Most windows hold the same number of samples.
    usual = 1 + int(np.argmax(share[1:]))
    ranks = table.at(np.array([usual]))
    found = ranks.between(samples[ranks.lower[0] - lowest], samples[ranks.upper[0] - lowest])
    odd = np.flatnonzero(block.where(widths != usual) & block.filled)
    rows, columns = np.divmod(odd, block.shape[1])
    ranks = table.at(widths[columns] if block.bounds.shared else widths.reshape(-1)[odd])
    low, high = ranks.lower - lowest, ranks.upper - lowest
    np.clip(low, 0, samples.shape[0] - 1, out=low)
    np.clip(high, 0, samples.shape[0] - 1, out=high)
    flat = found.reshape(-1)
    flat[odd] = ranks.between(samples[low, rows, columns], samples[high, rows, columns])
    missing = np.isnan(block.values)
    if missing.any():
        found[count(block, missing) > table.lower[widths]] = np.nan
    cells = odd[(ranks.lower < lowest) | (ranks.upper > highest)]
    if cells.size:
        phi = np.full(block.shape[1], level)
        flat[cells] = for_each(block, cells, Sorting(phi), np.inf)
    return found


def _wanted(share: IndexArray, table: Ranks) -> tuple[int, int] | None:
    """The ranks that most windows ask for, from the lowest to the highest.

    `share`: how many windows have no sample, one, two, …; `table`: what they ask for.
    """
    windows = int(share.sum())
    filled = windows - int(share[0])
    covered, lowest, highest = 0, -1, -1
    for width in np.argsort(-share, kind="stable").tolist():
        if share[width] <= RARE * windows:
            break
        if not width:
            continue
        low, high = int(table.lower[width]), int(table.upper[width])
        both = (min(low, lowest), max(high, highest)) if lowest >= 0 else (low, high)
        if both[1] - both[0] >= MOST_RANKS:
            continue
        lowest, highest = both
        covered += int(share[width])
    return (lowest, highest) if 2 * covered > filled else None


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Samples in slots, [S, slots], so that each window is `width` of them: -Inf for NaN.

    `hop`: how many slots a step has. Where there is no sample there is +Inf.
    """

    hop: int
    width: int
    fill: Callable[[int], Float64Array]


def _slots(block: Block) -> Slots | None:
    """The slots of a block; None if windows are no whole number of steps."""
    values = block.values
    if np.isnan(values.max()):
        values = np.where(np.isnan(values), -np.inf, values)
    grid, bins = block.bounds.grid, block.bounds.bins if block.bounds.grid is None else None
    if grid is not None:
        frame = grid.frame

        def filled(size: int) -> Float64Array:
            """From the first window's first slot on, so many."""
            found = np.full((values.shape[0], size), np.inf)
            used = min(size, frame.steps + frame.width - 1)
            spread = grid.spread(values, np.inf)
            found[:, :used] = spread[:, frame.first : frame.first + used]
            return found

        return Slots(1, frame.width, filled)
    if bins is None:
        return None

    def placed(size: int) -> Float64Array:
        rows = values.shape[0]
        # One more, for samples that are in no window.
        slots = np.full(rows * size + 1, np.inf)
        places = bins.slots + (np.arange(rows) * size)[:, None]
        slots[np.where(bins.inside, places, rows * size)] = values
        return slots[:-1].reshape(rows, size)

    return Slots(bins.hop, bins.width, placed)


def _found_ranks(slots: Slots, shape: tuple[int, int], lowest: int, highest: int) -> Float64Array:
    """What has each of these ranks in each window, +Inf where there is nothing: [ranks, S, T]."""
    program = network(slots.width, slots.hop, lowest, highest)
    rows, steps = shape
    groups = -(-steps // program.group)
    each = groups + program.beyond
    filled = slots.fill(each * program.inputs).reshape(rows, each, program.inputs)
    samples = np.ascontiguousarray(filled.transpose(2, 0, 1))
    found = run(program, samples.reshape(program.inputs, -1))
    found = found.reshape(-1, program.group, rows, each)[..., :groups]
    ordered = np.ascontiguousarray(found.transpose(0, 2, 3, 1)).reshape(len(found), rows, -1)
    return ordered[:, :, :steps]
