"""Running sums of samples in slots, by their place between cuts.

What is first in its stretch lies together, then what is second, and so on: the next place of all
stretches is one operation on arrays. Column 0 stands before the first stretch and means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from engine.promql.bounds import IndexArray
    from engine.promql.grid import Frame, Grid
    from engine.series import BoolArray, Float64Array


Cells = TypeVar("Cells", "Float64Array", "BoolArray")


def by_place(frame: Frame, spread: Float64Array | IndexArray) -> Float64Array:
    """What is in slots, [S, slots], as [places, S, 1 + stretches]."""
    rows = spread.shape[0]
    found = np.empty((frame.short, rows, 1 + frame.stretches))
    found[..., 0] = 0.0
    found[..., 1:] = spread.reshape(rows, frame.stretches, frame.short).transpose(2, 0, 1)
    return found


def at_steps(frame: Frame, found: Cells) -> Cells:
    """What is known per window, [places, S, …] as in `Folds`, as [S, T]."""
    rows = found.shape[1]
    slots: Cells = np.empty((rows, found.shape[2] * frame.short), dtype=found.dtype)
    slots.reshape(rows, -1, frame.short)[...] = found.transpose(1, 2, 0)
    first = frame.first + frame.short - 1
    return slots[:, first : first + frame.steps]


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """The sums of each window's two halves, 0 for a half that is empty.

    [places, S, 1 + stretches - parts], by the window's last slot.
    """

    before: Float64Array
    beyond: Float64Array

    @classmethod
    def of(cls, grid: Grid, forward: Float64Array, backward: Float64Array) -> Folds:
        """Sums of what is given `by_place`, from the cuts forwards and from them backwards.

        It is 0 where there is no sample.
        """
        frame = grid.frame
        before = np.empty((frame.short + 1, *backward.shape[1:]))
        beyond = np.empty(forward.shape)
        last = frame.short - 1
        ahead, behind = _beyond(frame, forward, backward)
        np.add(ahead, forward[0], out=beyond[0])
        for place in range(1, frame.short):
            np.add(beyond[place - 1], forward[place], out=beyond[place])
        np.add(behind, backward[last], out=before[last])
        for place in range(last - 1, -1, -1):
            np.add(before[place + 1], backward[place], out=before[place])
        ahead_of, behind_of = grid.seams
        for seam in ahead_of:
            column, places = divmod(seam.stop, frame.short)
            found = beyond[last, seam.rows, 1 + seam.stretch]
            beyond[:, seam.rows, 1 + seam.start // frame.short : 1 + column] = found[:, None]
            beyond[:places, seam.rows, 1 + column : 2 + column] = found[:, None]
        for seam in behind_of:
            column, places = divmod(seam.start, frame.short)
            found = before[0, seam.rows, 1 + seam.stretch]
            before[places : last + 1, seam.rows, 1 + column : 2 + column] = found[:, None]
            before[:-1, seam.rows, 2 + column : 1 + seam.stretch] = found[:, None]
        # The oldest slot of a window that ends with its stretch is the first of the next one.
        before[-1, :, :-1] = before[0, :, 1:]
        # A window that ends at its cut has nothing beyond it.
        beyond[-1, :, frame.parts :: frame.parts] = 0.0
        return cls(before[1:, :, : 1 + frame.stretches - frame.parts], beyond[:, :, frame.parts :])


def _beyond(
    frame: Frame, forward: Float64Array, backward: Float64Array
) -> tuple[Float64Array | float, Float64Array | float]:
    """For each stretch the sums of those between it and either cut, [S, 1 + stretches]."""
    if frame.parts == 1:
        return 0.0, 0.0
    whole = np.zeros(forward.shape[1:])
    for values in forward:
        whole += values
    ahead = _summed(whole[:, 1:].reshape(-1, frame.parts), whole.shape)
    if backward is not forward:
        whole = np.zeros(backward.shape[1:])
        for values in backward[::-1]:
            whole += values
    behind = _summed(whole[:, :0:-1].reshape(-1, frame.parts), whole.shape)
    behind[:, 1:] = behind[:, :0:-1]
    return ahead, behind


def _summed(whole: Float64Array, shape: tuple[int, ...]) -> Float64Array:
    """The sums of all stretches before each, [cuts, parts], as [S, 1 + stretches]."""
    found = np.zeros(shape)
    before = np.zeros(whole.shape)
    np.add.accumulate(whole[:, :-1], axis=1, out=before[:, 1:])
    found[:, 1:] = before.reshape(shape[0], -1)
    return found
