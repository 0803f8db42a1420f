"""Which of equal elements `topk` and `bottomk` keep, and in which order they show them.

Prometheus puts the series one after the other through a heap (promql/engine.go, aggregationK, on
Go's container/heap), so that of equals at the limit it is not simply the first ones that stay. A
rule that asks for 3 of many zeros must name the same ones here.

Everywhere below the largest are kept, and NaN is smaller than everything, itself included, as that
heap has it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from engine.promql.windows import IndexArray
    from engine.series import BoolArray, Float64Array

# Go's sort package sorts so few elements by insertion, hence in a known order among equals.
_INSERTION_SORTED = 12


def shown(values: list[float], limit: int) -> list[int]:
    """The positions of the `limit` largest values as an instant query shows them, best first."""
    heap: list[int] = []
    for row, value in enumerate(values):
        if len(heap) < limit:
            heap.append(row)
            _rise(heap, values)
        elif heap and not math.isnan(value) and _below(values[heap[0]], value):
            heap[0] = row
            _sink(heap, values)
    if len(heap) > _INSERTION_SORTED:
        return sorted(heap, key=lambda row: (math.isnan(values[row]), -values[row]))
    for end in range(1, len(heap)):
        place = end
        while place and _below(values[heap[place - 1]], values[heap[place]]):
            heap[place], heap[place - 1] = heap[place - 1], heap[place]
            place -= 1
    return heap


def _below(one: float, other: float) -> bool:
    return math.isnan(one) or one < other


def _rise(heap: list[int], values: list[float]) -> None:
    place = len(heap) - 1
    while place:
        above = (place - 1) // 2
        if not _below(values[heap[place]], values[heap[above]]):
            return
        heap[place], heap[above] = heap[above], heap[place]
        place = above


def _sink(heap: list[int], values: list[float]) -> None:
    place = 0
    while (under := 2 * place + 1) < len(heap):
        if under + 1 < len(heap) and _below(values[heap[under + 1]], values[heap[under]]):
            under += 1
        if not _below(values[heap[under]], values[heap[place]]):
            return
        heap[place], heap[under] = heap[under], heap[place]
        place = under


def kept(values: Float64Array, present: BoolArray, limit: int) -> BoolArray:
    """What stays of each column: bool[S, T]. All columns go through their heaps together."""
    rows, steps = values.shape
    heap = np.zeros((limit, steps), dtype=np.intp)
    size = np.zeros(steps, dtype=np.intp)
    root = np.full(steps, np.nan)
    for row in range(rows):
        own = values[row]
        growing = np.flatnonzero(present[row] & (size < limit))
        # What a full heap's root is not below, or equal to, goes by without a trace.
        better = (size == limit) & present[row] & ((root < own) | (np.isnan(root) & ~np.isnan(own)))
        replaced = np.flatnonzero(better)
        if growing.size:
            heap[size[growing], growing] = row
            _sift_up(heap, values, size[growing], growing)
            size[growing] += 1
        if replaced.size:
            heap[0, replaced] = row
            _sift_down(heap, values, replaced)
        for changed in (growing, replaced):
            root[changed] = values[heap[0, changed], changed]
    found = np.zeros(values.shape, dtype=np.bool_)
    for place in range(limit):
        filled = np.flatnonzero(size > place)
        found[heap[place, filled], filled] = True
    return found


def _sift_up(heap: IndexArray, values: Float64Array, place: IndexArray, steps: IndexArray) -> None:
    while steps.size:
        above = (place - 1) // 2
        moving = (place > 0) & _less(heap, values, place, np.maximum(above, 0), steps)
        place, above, steps = place[moving], above[moving], steps[moving]
        _swap(heap, place, above, steps)
        place = above


def _sift_down(heap: IndexArray, values: Float64Array, steps: IndexArray) -> None:
    limit = len(heap)
    place = np.zeros(steps.size, dtype=np.intp)
    while steps.size:
        inside = 2 * place + 1 < limit
        place, steps = place[inside], steps[inside]
        below = 2 * place + 1
        right = np.minimum(below + 1, limit - 1)
        below = np.where(
            (below + 1 < limit) & _less(heap, values, right, below, steps), right, below
        )
        moving = _less(heap, values, below, place, steps)
        place, below, steps = place[moving], below[moving], steps[moving]
        _swap(heap, place, below, steps)
        place = below


def _less(
    heap: IndexArray, values: Float64Array, one: IndexArray, other: IndexArray, steps: IndexArray
) -> BoolArray:
    first, second = values[heap[one, steps], steps], values[heap[other, steps], steps]
    smaller: BoolArray = np.isnan(first) | (first < second)
    return smaller


def _swap(heap: IndexArray, one: IndexArray, other: IndexArray, steps: IndexArray) -> None:
    heap[one, steps], heap[other, steps] = heap[other, steps], heap[one, steps].copy()
