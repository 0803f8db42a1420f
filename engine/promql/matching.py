"""How two vectors find each other: `on`, `ignoring`, `group_left`, `group_right`, and sets.

Rows pair up once, by the labels they are matched on; which pairs exist at a step is a mask. So
duplicates are an error only at a step where both are present, as in Prometheus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import EvaluationError
from engine.promql.frame import Frame
from engine.promql.native_operands import of_pairs
from engine.promql.operators import ARITHMETIC, COMPARISONS
from engine.promql.pairing import Pairing, Rivals, Signatures, signature
from rules.promql.ast import VectorMatching
from rules.promql.tokens import TRIM_OPERATORS
from rules.slotted import dataclass

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.promql.context import Context
    from engine.promql.windows import IndexArray
    from engine.series import BoolArray
    from rules.promql.ast import Binary

# For each row; more come of absent rows that would be an error at a step where they are present.
FEW_PAIRS = 2
ALL_LABELS = VectorMatching("one-to-one", on=False, labels=())


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """The result of a match. `drop_names`: the operator takes the names away."""

    frame: Frame
    drop_names: bool


def combine(node: Binary, lhs: Frame, rhs: Frame) -> Frame:
    """`and`, `or`, `unless`."""
    matching = node.matching or ALL_LABELS
    keys = Signatures.of(lhs.labels, rhs.labels, matching)
    if node.op == "or":
        taken = keys.seen(keys.left, lhs.present)[keys.right]
        free = rhs.with_values(rhs.values, rhs.present & ~taken).without_absent()
        return Frame.stacked((lhs, free)).merged()
    found = keys.seen(keys.right, rhs.present)[keys.left]
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
    found = _paired(context, node, matching, many, one)
    if found is None:
        return Matched(Frame.empty(lhs.steps), drop_names=False)
    many, one, pairs, both = found
    many_rows, one_rows = pairs.many, pairs.one
    histograms = None
    if many.histograms is not None or one.histograms is not None:
        sides = _native(many, many_rows), _native(one, one_rows)
        both, histograms = of_pairs(context, node, *(sides[::-1] if swapped else sides), both)
    if node.op in TRIM_OPERATORS:
        if both.any():
            context.notes.incompatible_types("float", node.op, "float", node.span)
        return Matched(Frame.empty(lhs.steps), drop_names=False)
    names = pairs.labels
    _require_unique(node, matching, pairs.rivals, both)
    left, right = many.values[many_rows], one.values[one_rows]
    if swapped:
        left, right = right, left
    drops = _picked(many.drops, many_rows)
    if node.op in ARITHMETIC:
        values = ARITHMETIC[node.op](left, right)
        fates = (False,) * len(names)
        return Matched(Frame(names, values, both, fates, histograms=histograms), drop_names=False)
    holds = COMPARISONS[node.op](left, right)
    if node.return_bool:
        frame = Frame(names, holds.astype(np.float64), both, drops)
        return Matched(frame, drop_names=True)
    return Matched(Frame(names, left, both & holds, drops), drop_names=False)


def _paired(
    context: Context, node: Binary, matching: VectorMatching, many: Frame, one: Frame
) -> tuple[Frame, Frame, Pairing, BoolArray] | None:
    """Both sides, stand-ins included, their pairs, and where both of a pair are present, [P, T]."""
    filled = matching.fill_left is not None or matching.fill_right is not None
    # Absent rows stay, so that the labels are the same object as before, unless they cost much.
    rows = len(many.labels) + len(one.labels)
    if filled or Signatures.of(many.labels, one.labels, matching).count > FEW_PAIRS * rows:
        many, one = many.without_absent(), one.without_absent()
    if not filled and (not many.labels or not one.labels):
        return None
    _require_one_side(node, matching, many, one)
    context.require((len(many.labels) + len(one.labels)) * many.steps, node.span)
    many, one, own = _with_fill(matching, many, one) if filled else (many, one, None)
    count = Signatures.of(many.labels, one.labels, matching).count
    if not count:
        return None
    context.require(count * many.steps, node.span)
    keeps_name = node.op not in ARITHMETIC
    pairs = Pairing.of(many.labels, one.labels, matching, keeps_name=keeps_name)
    both = many.present[pairs.many] & one.present[pairs.one]
    if own is not None:
        # Two stand-ins make no pair.
        both &= ((pairs.many < own[0]) | (pairs.one < own[1]))[:, None]
    return many, one, pairs, both


def _picked(drops: tuple[bool, ...], rows: IndexArray) -> tuple[bool, ...]:
    if all(drops) or not any(drops):
        return (drops[0],) * rows.size
    return tuple(drops[row] for row in rows.tolist())


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
    keys = Signatures.of(many.labels, one.labels, matching)
    if not keys.right_rivals.count:
        return
    # With nothing on the other side at a step, nothing is matched there and nothing is wrong.
    filled = matching.fill_left is not None or matching.fill_right is not None
    active: BoolArray = np.logical_or(many.present.any(axis=0), filled)
    clashes = keys.right_rivals.clashes(one.present) & active
    if not clashes.any():
        return
    group = int(clashes.any(axis=1).argmax())
    rows, step = keys.right_rivals.members(group), int(clashes[group].argmax())
    key = keys.labels[int(keys.right[rows[0]])]
    first, second = sorted(one.labels[row] for row in rows[one.present[rows, step]][:2].tolist())
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


def _require_unique(
    node: Binary, matching: VectorMatching, rivals: Rivals, both: BoolArray
) -> None:
    """No two pairs at one step may make the same result (or share a one-to-one match)."""
    if rivals.clashes(both).any():
        raise EvaluationError(
            "multiple matches for labels: many-to-one matching must be explicit "
            "(group_left/group_right)"
            if matching.cardinality == "one-to-one"
            else "multiple matches for labels: grouping labels must ensure unique matches",
            node.op_span,
        )
