"""How two vectors find each other: `on`, `ignoring`, `group_left`, `group_right`, and sets.

Rows pair up once, by the labels they are matched on; which pairs exist at a step is a mask. So
duplicates are an error only at a step where both are present, as in Prometheus.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import EvaluationError
from engine.promql.frame import Frame
from engine.promql.naming import METADATA, unnamed
from engine.promql.native_operands import of_pairs
from engine.promql.operators import ARITHMETIC, COMPARISONS
from rules.promql.ast import VectorMatching
from rules.promql.tokens import TRIM_OPERATORS

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.promql.context import Context
    from engine.promql.windows import IndexArray
    from engine.series import BoolArray
    from rules.promql.ast import Binary

ALL_LABELS = VectorMatching("one-to-one", on=False, labels=())


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """The result of a match. `drop_names`: the operator takes the names away."""

    frame: Frame
    drop_names: bool


def signature(labels: Labels, matching: VectorMatching) -> Labels:
    """The labels that two series must share to match."""
    if matching.on:
        return labels.only(*matching.labels)
    return labels.without(*matching.labels, *METADATA)


def combine(node: Binary, lhs: Frame, rhs: Frame) -> Frame:
    """`and`, `or`, `unless`."""
    matching = node.matching or ALL_LABELS
    left = [signature(labels, matching) for labels in lhs.labels]
    right = [signature(labels, matching) for labels in rhs.labels]
    if node.op == "or":
        taken = _present_by_signature(left, lhs.present)
        free = rhs.present & ~_looked_up(right, taken, lhs.steps)
        return Frame.stacked((lhs, rhs.with_values(rhs.values, free).without_absent())).merged()
    found = _looked_up(left, _present_by_signature(right, rhs.present), lhs.steps)
    present = lhs.present & (found if node.op == "and" else ~found)
    return lhs.with_values(lhs.values, present)


def _present_by_signature(keys: list[Labels], present: BoolArray) -> dict[Labels, BoolArray]:
    seen: dict[Labels, BoolArray] = {}
    for key, here in zip(keys, present, strict=True):
        seen[key] = seen[key] | here if key in seen else here
    return seen


def _looked_up(keys: list[Labels], seen: dict[Labels, BoolArray], steps: int) -> BoolArray:
    never = np.zeros(steps, dtype=np.bool_)
    rows = [seen.get(key, never) for key in keys]
    return np.stack(rows) if rows else np.zeros((0, steps), dtype=np.bool_)


def match(context: Context, node: Binary, lhs: Frame, rhs: Frame) -> Matched:
    """An arithmetic or comparison operator between two vectors."""
    matching = node.matching or ALL_LABELS
    swapped = matching.cardinality == "one-to-many"
    many, one = (rhs, lhs) if swapped else (lhs, rhs)
    many, one = many.without_absent(), one.without_absent()
    filled = matching.fill_left is not None or matching.fill_right is not None
    if not filled and (not many.labels or not one.labels):
        return Matched(Frame.empty(lhs.steps), drop_names=False)
    _require_one_side(node, matching, many, one)
    context.require((len(many.labels) + len(one.labels)) * lhs.steps, node.span)
    many, one, own = _with_fill(matching, many, one) if filled else (many, one, None)
    by_key: dict[Labels, list[int]] = {}
    for row, labels in enumerate(one.labels):
        by_key.setdefault(signature(labels, matching), []).append(row)
    pairs = [
        (row, other)
        for row, labels in enumerate(many.labels)
        for other in by_key.get(signature(labels, matching), ())
        if own is None or row < own[0] or other < own[1]
    ]
    if not pairs:
        return Matched(Frame.empty(lhs.steps), drop_names=False)
    context.require(len(pairs) * lhs.steps, node.span)
    many_rows, one_rows = (np.array(rows, dtype=np.intp) for rows in zip(*pairs, strict=True))
    both = many.present[many_rows] & one.present[one_rows]
    histograms = None
    if many.histograms is not None or one.histograms is not None:
        sides = _native(many, many_rows), _native(one, one_rows)
        both, histograms = of_pairs(context, node, *(sides[::-1] if swapped else sides), both)
    if node.op in TRIM_OPERATORS:
        if both.any():
            context.notes.incompatible_types("float", node.op, "float", node.span)
        return Matched(Frame.empty(lhs.steps), drop_names=False)
    names = tuple(
        _result_labels(node, matching, many.labels[row], one.labels[other]) for row, other in pairs
    )
    _require_unique(node, matching, many, many_rows, names, both)
    left, right = many.values[many_rows], one.values[one_rows]
    if swapped:
        left, right = right, left
    drops = tuple(many.drops[row] for row in many_rows.tolist())
    if node.op in ARITHMETIC:
        values = ARITHMETIC[node.op](left, right)
        fates = (False,) * len(names)
        return Matched(Frame(names, values, both, fates, histograms=histograms), drop_names=False)
    holds = COMPARISONS[node.op](left, right)
    if node.return_bool:
        frame = Frame(names, holds.astype(np.float64), both, drops)
        return Matched(frame, drop_names=True)
    return Matched(Frame(names, left, both & holds, drops), drop_names=False)


def _native(frame: Frame, rows: IndexArray) -> BoolArray:
    if frame.histograms is None:
        return np.zeros((rows.size, frame.steps), dtype=np.bool_)
    return frame.histograms[rows]


def _with_fill(
    matching: VectorMatching, many: Frame, one: Frame
) -> tuple[Frame, Frame, tuple[int, int]]:
    """Both sides with a row for each match group that is missing there, and their own rows' count.

    Such a row has the labels that are matched on, and is present where the side has none of its
    own with them.
    """
    # Prometheus swaps the sides for group_right, not what fills them.
    fill_many, fill_one = matching.fill_left, matching.fill_right
    own = len(many.labels), len(one.labels)
    keys_many = [signature(labels, matching) for labels in many.labels]
    keys_one = [signature(labels, matching) for labels in one.labels]
    more_many = _stand_ins(fill_many, keys_one, keys_many, many)
    more_one = _stand_ins(fill_one, keys_many, keys_one, one)
    return Frame.stacked((many, more_many)), Frame.stacked((one, more_one)), own


def _stand_ins(fill: float | None, wanted: list[Labels], keys: list[Labels], side: Frame) -> Frame:
    names = () if fill is None else tuple(dict.fromkeys(wanted))
    here = _looked_up(list(names), _present_by_signature(keys, side.present), side.steps)
    return Frame(names, np.full(here.shape, fill or 0.0), ~here, (False,) * len(names))


def _require_one_side(node: Binary, matching: VectorMatching, many: Frame, one: Frame) -> None:
    """Two rows of the "one" side with one signature at the same step are an error."""
    by_key: dict[Labels, list[int]] = {}
    for row, labels in enumerate(one.labels):
        by_key.setdefault(signature(labels, matching), []).append(row)
    # With nothing on the other side at a step, nothing is matched there and nothing is wrong.
    filled = matching.fill_left is not None or matching.fill_right is not None
    active: BoolArray = np.logical_or(many.present.any(axis=0), filled)
    for key, rows in by_key.items():
        clash = active & (one.present[rows].sum(axis=0) > 1)
        if not clash.any():
            continue
        step = int(clash.argmax())
        found = [one.labels[row] for row in rows if one.present[row, step]]
        first, second = sorted(found[:2])
        side = "left" if matching.cardinality == "one-to-many" else "right"
        raise EvaluationError(
            f"found duplicate series for the match group {_braced(key)} on the {side} hand-side of "
            f"the operation: [{_braced(first)}, {_braced(second)}];"
            "many-to-many matching not allowed: matching labels must be unique on one side",
            node.op_span,
        )


def _braced(labels: Labels) -> str:
    """`{__name__="a", b="c"}`, the name like any other label."""
    pairs = ", ".join(f'{name}="{value}"' for name, value in labels)
    return f"{{{pairs}}}"


def _result_labels(node: Binary, matching: VectorMatching, many: Labels, one: Labels) -> Labels:
    labels = unnamed(many) if node.op in ARITHMETIC else many
    if matching.cardinality == "one-to-one":
        labels = labels.only(*matching.labels) if matching.on else labels.without(*matching.labels)
    if matching.include:
        labels = labels.merged({name: one.get(name) for name in matching.include})
    return labels


def _require_unique(
    node: Binary,
    matching: VectorMatching,
    many: Frame,
    many_rows: IndexArray,
    labels: tuple[Labels, ...],
    both: BoolArray,
) -> None:
    """No two pairs at one step may make the same result (or share a one-to-one match)."""
    explicit = matching.cardinality == "one-to-one"
    groups: dict[Labels, list[int]] = {}
    for pair, row in enumerate(many_rows.tolist()):
        key = signature(many.labels[row], matching) if explicit else labels[pair]
        groups.setdefault(key, []).append(pair)
    for pairs in groups.values():
        if len(pairs) > 1 and (both[pairs].sum(axis=0) > 1).any():
            raise EvaluationError(
                "multiple matches for labels: many-to-one matching must be explicit "
                "(group_left/group_right)"
                if explicit
                else "multiple matches for labels: grouping labels must ensure unique matches",
                node.op_span,
            )
