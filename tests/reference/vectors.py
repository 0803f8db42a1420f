"""Instant vectors at one step: what operators and aggregators do to lists of elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from engine.labels import METRIC_NAME, Labels

from .windows import maximum, mean, minimum, quantile, total, variance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rules.promql.ast import Aggregate, Binary, VectorMatching

METADATA = (METRIC_NAME, "__type__", "__unit__")


class RefusedError(Exception):
    """The expression has no result on these data."""


class Element(NamedTuple):
    """One series' value. `drop`: its name goes at the end."""

    labels: Labels
    value: float
    drop: bool = False


Elements = list[Element]


def distinct(elements: Elements) -> Elements:
    if len({element.labels for element in elements}) < len(elements):
        raise RefusedError("the same labels twice")
    return elements


def float_op(function: Callable[[np.float64, np.float64], np.float64]) -> Callable[..., float]:
    def apply(one: float, other: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(np.float64(one), np.float64(other)))

    return apply


ARITHMETIC: dict[str, Callable[..., float]] = {
    "+": float_op(lambda a, b: a + b),
    "-": float_op(lambda a, b: a - b),
    "*": float_op(lambda a, b: a * b),
    "/": float_op(lambda a, b: a / b),
    "%": float_op(np.fmod),
    "^": float_op(np.power),
    "atan2": float_op(np.arctan2),
}
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def signature(labels: Labels, matching: VectorMatching) -> Labels:
    if matching.on:
        return labels.only(*matching.labels)
    return labels.without(*matching.labels, *METADATA)


def combined(node: Binary, matching: VectorMatching, lhs: Elements, rhs: Elements) -> Elements:
    """`and`, `or`, `unless`."""
    left = {signature(one.labels, matching) for one in lhs}
    right = {signature(one.labels, matching) for one in rhs}
    if node.op == "or":
        return distinct(lhs + [one for one in rhs if signature(one.labels, matching) not in left])
    wanted = node.op == "and"
    return [one for one in lhs if (signature(one.labels, matching) in right) is wanted]


def matched(node: Binary, matching: VectorMatching, lhs: Elements, rhs: Elements) -> Elements:
    """Arithmetic and comparison between two vectors; names of a bool result are still there."""
    swapped = matching.cardinality == "one-to-many"
    result: Elements = []
    seen: set[Labels] = set()
    for many, one in partners(matching, lhs, rhs, swapped=swapped):
        labels = result_labels(node, matching, many.labels, one.labels)
        if matching.cardinality != "one-to-one" and labels in seen:
            raise RefusedError("grouping labels must ensure unique matches")
        seen.add(labels)
        left, right = (one.value, many.value) if swapped else (many.value, one.value)
        if node.op in ARITHMETIC:
            result.append(Element(labels, ARITHMETIC[node.op](left, right)))
        elif node.return_bool:
            result.append(Element(labels, float(COMPARISONS[node.op](left, right)), many.drop))
        elif COMPARISONS[node.op](left, right):
            result.append(Element(labels, left, many.drop))
    return result


def partners(
    matching: VectorMatching, lhs: Elements, rhs: Elements, *, swapped: bool
) -> list[tuple[Element, Element]]:
    """Which element of the "many" side goes with which of the "one" side, `fill` included."""
    many, one = (rhs, lhs) if swapped else (lhs, rhs)
    # Prometheus swaps the sides for group_right, not what fills them.
    fill_many, fill_one = matching.fill_left, matching.fill_right
    by_key: dict[Labels, Element] = {}
    for element in one:
        key = signature(element.labels, matching)
        if key in by_key and (many or fill_many is not None or fill_one is not None):
            raise RefusedError("duplicate series on the one side")
        by_key.setdefault(key, element)
    found: list[tuple[Element, Element]] = []
    used: set[Labels] = set()
    for element in many:
        key = signature(element.labels, matching)
        if key not in by_key and fill_one is None:
            continue
        if matching.cardinality == "one-to-one" and key in used:
            raise RefusedError("many-to-one must be explicit")
        used.add(key)
        found.append((element, by_key[key] if key in by_key else Element(key, fill_one or 0.0)))
    if fill_many is not None:
        rest = [(key, element) for key, element in by_key.items() if key not in used]
        found += [(Element(key, fill_many), element) for key, element in rest]
    return found


def result_labels(node: Binary, matching: VectorMatching, many: Labels, one: Labels) -> Labels:
    labels = many.without(*METADATA) if node.op in ARITHMETIC else many
    if matching.cardinality == "one-to-one":
        labels = labels.only(*matching.labels) if matching.on else labels.without(*matching.labels)
    return labels.merged({name: one.get(name) for name in matching.include})


def grouped(node: Aggregate, elements: Elements) -> dict[Labels, Elements]:
    groups: dict[Labels, Elements] = {}
    for element in elements:
        labels = element.labels
        if node.without:
            key = labels.without(*node.grouping, *METADATA)
        else:
            key = labels.only(*node.grouping)
        groups.setdefault(key, []).append(element)
    return groups


FOLDS: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": total,
    "avg": mean,
    "min": minimum,
    "max": maximum,
    "count": lambda values: float(len(values)),
    "group": lambda _: 1.0,
    "stddev": lambda values: math.sqrt(variance(values)),
    "stdvar": variance,
}


def aggregated(node: Aggregate, param: float | None, elements: Elements) -> Elements:
    result: Elements = []
    for labels, members in grouped(node, elements).items():
        values = [member.value for member in members]
        drop = any(member.drop for member in members)
        if node.op == "quantile":
            assert param is not None
            result.append(Element(labels, quantile(param, values), drop))
        elif node.op in ("topk", "bottomk", "limitk"):
            assert param is not None
            result += ranked(node.op, int(param), members)
        else:
            result.append(Element(labels, FOLDS[node.op](values), drop))
    return result


def ranked(op: str, limit: int, members: Elements) -> Elements:
    """The best, NaN last; equals at the limit go through a heap as Prometheus' do."""
    members = sorted(members, key=lambda member: member.labels)
    if op == "limitk":
        return members[: max(0, limit)]
    sign = 1 if op == "topk" else -1
    heap: list[tuple[float, Element]] = []
    for member in members:
        value = sign * member.value
        if len(heap) < limit:
            heap.append((value, member))
            child = len(heap) - 1
            while child and below(heap[child], heap[(child - 1) // 2]):
                parent = (child - 1) // 2
                heap[child], heap[parent] = heap[parent], heap[child]
                child = parent
        elif heap and not math.isnan(value) and below(heap[0], (value, member)):
            heap[0] = (value, member)
            parent = 0
            while children := [at for at in (2 * parent + 1, 2 * parent + 2) if at < len(heap)]:
                child = children[0]
                if children[1:] and below(heap[children[1]], heap[child]):
                    child = children[1]
                if not below(heap[child], heap[parent]):
                    break
                heap[child], heap[parent] = heap[parent], heap[child]
                parent = child
    return [member for _, member in heap]


def below(one: tuple[float, Element], other: tuple[float, Element]) -> bool:
    return math.isnan(one[0]) or one[0] < other[0]
