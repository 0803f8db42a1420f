"""Which labels the elements of an expression can carry, and which values are certain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rules.promql.ast import (
    Aggregate,
    Binary,
    Call,
    MatrixSelector,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    ValueType,
    VectorSelector,
)
from rules.promql.functions import FUNCTIONS
from rules.promql.tokens import COMPARISONS, SET_OPERATORS
from rules.promql.types import type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rules.promql.ast import Expr, VectorMatching

NAME: Final = "__name__"
_KEEPS_NAME: Final = frozenset({
    "last_over_time", "first_over_time", "sort", "sort_desc", "sort_by_label",
    "sort_by_label_desc", "label_replace", "label_join",
})  # fmt: skip
_KEEPS_ELEMENTS: Final = frozenset({"topk", "bottomk", "limitk", "limit_ratio"})
_KEEPS_LABELS: Final = frozenset({"straggler_cost", "straggler_score", "straggler_slowdown"})


@dataclass(frozen=True, slots=True)
class Flow:
    """The labels of a vector's elements.

    `is_open`: any label may be there but those in `names`; otherwise only those in `names`.
    `fixed` are values that every element has; "" says that the label is never there.
    """

    is_open: bool
    names: frozenset[str] = frozenset()
    fixed: Mapping[str, str] = field(default_factory=dict)

    def can_have(self, label: str) -> bool:
        """Whether an element may carry the label."""
        if self.fixed.get(label) == "":
            return False
        return (label in self.names) is not self.is_open

    def value(self, label: str) -> str | None:
        """The value that every element has, "" for none; None: it differs or is not known."""
        if label in self.fixed:
            return self.fixed[label]
        return None if self.can_have(label) else ""

    def without(self, labels: Iterable[str]) -> Flow:
        """After these labels are removed."""
        gone = frozenset(labels)
        names = self.names | gone if self.is_open else self.names - gone
        return Flow(self.is_open, names, {k: v for k, v in self.fixed.items() if k not in gone})

    def only(self, labels: Iterable[str]) -> Flow:
        """After all but these are removed."""
        kept = frozenset(label for label in labels if self.can_have(label))
        return Flow(False, kept, {k: v for k, v in self.fixed.items() if k in kept})

    def adding(self, *labels: str) -> Flow:
        """After these are given values that nobody knows."""
        given = frozenset(labels)
        names = self.names - given if self.is_open else self.names | given
        return Flow(self.is_open, names, {k: v for k, v in self.fixed.items() if k not in given})

    def with_fixed(self, values: Mapping[str, str]) -> Flow:
        """The elements that have these values."""
        return Flow(self.is_open, self.names, {**self.fixed, **values})

    def either(self, other: Flow) -> Flow:
        """Elements of both kinds."""
        candidates = {*self.fixed, *other.fixed}
        fixed = {
            label: value
            for label in candidates
            if (value := self.value(label)) is not None and value == other.value(label)
        }
        if self.is_open and other.is_open:
            return Flow(True, self.names & other.names, fixed)
        if not self.is_open and not other.is_open:
            return Flow(False, self.names | other.names, fixed)
        loose, strict = (self, other) if self.is_open else (other, self)
        return Flow(True, loose.names - strict.names, fixed)


NO_LABELS: Final = Flow(False)

if TYPE_CHECKING:
    FlowOf = Callable[[Expr], Flow]


def flow(node: Expr, of: FlowOf) -> Flow:
    """The labels of a node, `of` giving those of its children."""
    match node:
        case VectorSelector():
            return Flow(True, fixed=_equalities(node))
        case MatrixSelector(selector=selector):
            return of(selector)
        case Subquery(expr=inner) | Paren(expr=inner):
            return of(inner)
        case Unary(op=op, expr=inner):
            return of(inner).without([NAME]) if op == "-" else of(inner)
        case Aggregate():
            return _aggregate(node, of(node.expr))
        case Call():
            return _call(node, of)
        case Binary():
            return _binary(node, of)
        case _:
            return NO_LABELS


def _equalities(selector: VectorSelector) -> dict[str, str]:
    return {m.label: m.value for m in selector.matchers if m.op == "="}


def _aggregate(node: Aggregate, inner: Flow) -> Flow:
    if node.op in _KEEPS_ELEMENTS:
        return inner
    if node.op in _KEEPS_LABELS:
        return inner.without([NAME])
    grouped = inner.without([*node.grouping, NAME]) if node.without else inner.only(node.grouping)
    if node.op == "count_values" and isinstance(node.param, StringLiteral):
        return grouped.adding(node.param.value)
    return grouped


def _call(node: Call, of: FlowOf) -> Flow:
    name, args = node.func, node.args
    vectors = [arg for arg in args if type_of(arg) in {ValueType.VECTOR, ValueType.MATRIX}]
    if FUNCTIONS[name].returns is not ValueType.VECTOR or not vectors:
        return NO_LABELS
    inner = of(vectors[0])
    texts = [arg.value for arg in args if isinstance(arg, StringLiteral)]
    if name in {"absent", "absent_over_time"}:
        kept = {k: v for k, v in inner.fixed.items() if v and k != NAME}
        return Flow(False, frozenset(kept), kept)
    if name in {"label_replace", "label_join"} and texts:
        return inner.adding(texts[0])
    if name == "info":
        return Flow(True, fixed=inner.fixed)
    if name.startswith(("histogram_quantile", "histogram_fraction")):
        inner = inner.without(["le"]).adding(*texts[:1])
    return inner if name in _KEEPS_NAME else inner.without([NAME])


def _binary(node: Binary, of: FlowOf) -> Flow:
    lhs, rhs = of(node.lhs), of(node.rhs)
    filters = node.op in COMPARISONS and not node.return_bool
    if node.op in SET_OPERATORS:
        return lhs.either(rhs) if node.op == "or" else lhs
    if node.matching is None:
        # Of a chain `a + 1 + 1 ...` the left side is long to look at, the right one is not.
        if type_of(node.rhs) is not ValueType.SCALAR:
            lhs = rhs
        return lhs if filters else lhs.without([NAME])
    matching = node.matching
    if matching.cardinality == "one-to-one":
        if matching.on:
            return lhs.only(matching.labels)
        return lhs.without([*matching.labels, *(() if filters else (NAME,))])
    many, one = (rhs, lhs) if matching.cardinality == "one-to-many" else (lhs, rhs)
    found = many if filters else many.without([NAME])
    added = [label for label in matching.include if one.can_have(label)]
    return found.without(matching.include).adding(*added)


def clash(matching: VectorMatching, lhs: Flow, rhs: Flow) -> tuple[str, str, str] | None:
    """A label on which the two sides never agree, with its value on each; None: there is none."""
    if matching.on:
        labels = sorted(matching.labels)
    else:
        known = {*lhs.fixed, *rhs.fixed} - {*matching.labels, NAME, "__type__", "__unit__"}
        labels = sorted(known)
    for label in labels:
        left, right = lhs.value(label), rhs.value(label)
        if left is not None and right is not None and left != right:
            return label, left, right
    return None
