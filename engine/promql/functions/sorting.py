"""sort and its kin. They order an instant query's result; over a range they change nothing."""

from __future__ import annotations

import re
from functools import cmp_to_key
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.promql.context import Context, Partial
    from engine.promql.functions.shapes import Implementation
    from rules.promql.ast import Call

_CHUNKS = re.compile(r"\d+|\D+")


def by_value(*, descending: bool) -> Implementation:
    """Sort by value, NaN last either way."""

    def implementation(context: Context, call: Call) -> Partial:
        frame = context.frame(call.args[0]).without_histograms()
        if frame.steps != 1:
            return frame
        frame = frame.without_absent()
        values = frame.values[:, 0]
        order = np.lexsort((-values if descending else values, np.isnan(values)))
        return frame.take(order.tolist(), ordered=True)

    return implementation


def by_label(*, descending: bool) -> Implementation:
    """Sort by labels in natural order ("2" before "10"), ties by the whole label set."""

    def implementation(context: Context, call: Call) -> Partial:
        names = [context.string(arg) for arg in call.args[1:]]
        frame = context.frame(call.args[0])
        if frame.steps != 1:
            return frame

        def compare(one: int, other: int) -> int:
            return _compare(frame.labels[one], frame.labels[other], names)

        order = sorted(range(len(frame.labels)), key=cmp_to_key(compare), reverse=descending)
        return frame.take(order, ordered=True).without_absent()

    return implementation


def _compare(one: Labels, other: Labels, names: list[str]) -> int:
    for name in names:
        left, right = one.get(name), other.get(name)
        if left != right:
            return -1 if _precedes(left, right) else 1
    return (one.pairs > other.pairs) - (one.pairs < other.pairs)


def _precedes(one: str, other: str) -> bool:
    """Natural order of two texts: runs of digits as numbers, other runs by their characters.

    As in the library that Prometheus uses, facette/natsort; digits beyond an int64 are text there.
    """
    left, right = _CHUNKS.findall(one), _CHUNKS.findall(other)
    for mine, theirs in zip(left, right, strict=False):
        if mine == theirs:
            continue
        numbers = _number(mine), _number(theirs)
        if numbers[0] is None or numbers[1] is None:
            return bool(mine < theirs)
        if numbers[0] != numbers[1]:
            return numbers[0] < numbers[1]
    return len(left) <= len(right)


def _number(chunk: str) -> int | None:
    return int(chunk) if chunk.isdecimal() and len(chunk) < 20 and int(chunk) < 2**63 else None
