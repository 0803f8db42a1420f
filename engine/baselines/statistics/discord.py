"""How unlike every earlier stretch of a series the latest one is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from engine.series import Float64Array

# Points that are averaged into a block, blocks that make a shape, blocks that are kept.
BLOCK: Final = 8
SHAPE: Final = 8
KEPT: Final = 256
# Blocks that must be there before anything is told: two shapes that do not overlap, and a choice.
KNOWN: Final = 2 * SHAPE + 3


class Discord:
    """The distance of the latest shape to its nearest neighbour among all that are kept.

    A shape is `SHAPE` means of `BLOCK` points each; neighbours do not overlap it. The distance is
    Euclidean, between the values as they are: the left matrix profile (Yeh et al. 2016, "Matrix
    Profile I") of the series' piecewise aggregates (Keogh et al. 2001), over the last `KEPT`.
    It changes with every full block; before `KNOWN` blocks and between blocks it is 0.
    """

    __slots__ = ("blocks", "count", "filled", "total")

    SIZE = 3 + KEPT

    def __init__(self) -> None:
        self.total = 0.0
        self.filled = 0.0
        self.count = 0.0
        self.blocks: Float64Array = np.full(KEPT, math.inf)

    def update(self, value: float) -> float:
        """Take a value; the distance if it fills a block, else 0."""
        self.total += value
        self.filled += 1.0
        if self.filled < BLOCK:
            return 0.0
        self.blocks[:-1] = self.blocks[1:]
        self.blocks[-1] = self.total / BLOCK
        self.count = min(self.count + 1.0, float(KEPT))
        self.total, self.filled = 0.0, 0.0
        return self.get()

    def get(self) -> float:
        """The distance of the latest full shape, 0 before `KNOWN` blocks."""
        return float(nearest(self.blocks)) if self.count >= KNOWN else 0.0

    def numbers(self) -> list[float]:
        """All that it knows, `SIZE` numbers."""
        return [self.total, self.filled, self.count, *self.blocks.tolist()]

    def restore(self, numbers: list[float]) -> None:
        """Become what `numbers` told."""
        self.total, self.filled, self.count = numbers[:3]
        self.blocks = np.array(numbers[3:])


def nearest(blocks: Float64Array) -> Float64Array:
    """The distance of the last shape to the nearest that ends before it begins, [...].

    Blocks are [KEPT, ...], oldest first, infinite where there are none yet. The squares are added
    one block after another, so that the bits are those of any other number of series.
    """
    shapes = KEPT - 2 * SHAPE + 1
    step = blocks.strides[0]
    windows = np.lib.stride_tricks.as_strided(
        blocks, (SHAPE, shapes, *blocks.shape[1:]), (step, step, *blocks.strides[1:])
    )
    apart = windows - blocks[-SHAPE:, np.newaxis]
    apart *= apart
    return np.asarray(np.sqrt(np.add.reduce(apart, axis=0).min(axis=0)))
