"""Parts that several expressions have in common, computed once.

Rules of a pack repeat themselves: the same rate under another threshold, the same aggregate on both
sides of a ratio. A `Sharing` knows which parts occur more than once in the expressions that it was
made for, and holds their results for one set of times, as long as nothing they read has changed:
whoever writes a series says so (`forget`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, TypeAlias, cast

from engine.matching import matcher_key
from engine.promql.annotations import Annotations
from engine.promql.frame import Frame
from rules.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Expr,
    MatrixSelector,
    Subquery,
    ValueType,
    VectorSelector,
    children,
)
from rules.promql.printer import format as format_expression
from rules.promql.types import type_of
from rules.promql.walk import walk
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from engine.promql.context import Context, Partial
    from engine.promql.rows import Rows

    Leaf: TypeAlias = VectorSelector | MatrixSelector

MOST_BYTES = 256 * 2**20
# A part is worth holding if there is room for a few of its size.
SHARES = 3
# Small results take little memory but time to look through.
MOST_HELD = 512
# Larger trees are written by programs; telling their parts apart would take long.
MOST_NODES = 200


@dataclass(frozen=True, slots=True)
class _Part:
    """A part that occurs more than once. `layout`: where its nodes are, for annotations."""

    text: str
    layout: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A result and what it needs: `expr` was evaluated, `owner` is what it was read from."""

    value: object
    expr: Expr
    owner: object
    nbytes: int
    notes: Annotations | None = None
    layout: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class Sharing:
    """Results shared between the expressions `trees`; for one thread.

    `most_bytes` bounds what is held of results, and again what is held of series. `computed` and
    `reused` count.
    """

    trees: tuple[Expr, ...]
    most_bytes: int = MOST_BYTES
    computed: int = 0
    reused: int = 0
    _parts: dict[int, _Part] = field(init=False)
    _leaves: frozenset[int] = field(init=False)
    _results: _Cache = field(init=False)
    _rows: _Cache = field(init=False)

    def __post_init__(self) -> None:
        small = [tree for tree in self.trees if sum(1 for _ in walk(tree)) <= MOST_NODES]
        self._parts = _common_parts(small)
        self._leaves = _common_leaves(small)
        self._results, self._rows = _Cache(self.most_bytes), _Cache(self.most_bytes)

    def has(self, expr: Expr) -> bool:
        """Whether this node is one of several like it."""
        return id(expr) in self._parts

    def families(self, trees: Sequence[Expr]) -> list[int]:
        """For each tree a number; trees that share a part, be it through others, have the same."""
        numbers = list(range(len(trees)))
        first: dict[str, int] = {}
        for place, tree in enumerate(trees):
            for node in walk(tree):
                if id(node) not in self._parts:
                    continue
                other = numbers[first.setdefault(self._parts[id(node)].text, place)]
                own = numbers[place]
                if own != other:
                    numbers = [other if one == own else one for one in numbers]
        return numbers

    def fits(self, rows: int, steps: int) -> bool:
        """Whether a vector of this size is worth holding."""
        return rows * steps * 9 <= self.most_bytes // SHARES

    def clear(self) -> None:
        """The data have changed."""
        self._results.clear()
        self._rows.clear()

    def forget(self, reads: Callable[[Expr], bool]) -> None:
        """What some expressions read has changed."""
        self._results.forget(reads)
        self._rows.forget(reads)

    def evaluated(
        self, expr: Expr, context: Context, compute: Callable[[Context], Partial]
    ) -> Partial:
        """The value of a node that this `has`, computed at most once for these times."""
        part = self._parts[id(expr)]
        key = (part.text, *_place(context))
        found = self._results.get(key)
        if found is not None and (found.notes is None or found.layout == part.layout):
            self.reused += 1
            if found.notes is not None:
                context.notes.add(found.notes)
            return cast("Partial", found.value)
        notes = Annotations(context.options.source)
        value = compute(context.with_notes(notes))
        context.notes.add(notes)
        self.computed += 1
        noted = notes if notes.warnings or notes.infos else None
        if isinstance(value, Frame):
            nbytes = value.values.nbytes + value.present.nbytes
            held = _Held(value, expr, context.queryable, nbytes, noted, part.layout)
            self._results.put(key, held)
        return value

    def rows(
        self, leaf: Leaf, context: Context, question: Hashable, select: Callable[[], Rows]
    ) -> Rows:
        """What a selector finds, asked at most once for each `question`."""
        if id(leaf) not in self._leaves:
            return select()
        key = (id(context.queryable), question)
        found = self._rows.get(key)
        if found is None:
            rows = select()
            self.computed += 1
            found = _Held(rows, leaf, context.queryable, rows.nbytes)
            self._rows.put(key, found)
        else:
            self.reused += 1
        return cast("Rows", found.value)


class _Cache:
    """The longest unused goes first when there are too many bytes."""

    __slots__ = ("_held", "_most_bytes", "_nbytes")

    def __init__(self, most_bytes: int) -> None:
        self._held: OrderedDict[Hashable, _Held] = OrderedDict()
        self._most_bytes, self._nbytes = most_bytes, 0

    def get(self, key: Hashable) -> _Held | None:
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
        return found

    def put(self, key: Hashable, held: _Held) -> None:
        self._drop(key)
        if held.nbytes > self._most_bytes:
            return
        self._held[key] = held
        self._nbytes += held.nbytes
        while self._nbytes > self._most_bytes or len(self._held) > MOST_HELD:
            self._drop(next(iter(self._held)))

    def clear(self) -> None:
        self._held.clear()
        self._nbytes = 0

    def forget(self, reads: Callable[[Expr], bool]) -> None:
        for key in [key for key, held in self._held.items() if reads(held.expr)]:
            self._drop(key)

    def _drop(self, key: Hashable) -> None:
        gone = self._held.pop(key, None)
        self._nbytes -= 0 if gone is None else gone.nbytes


def _place(context: Context) -> tuple[Hashable, ...]:
    """What beside its text decides a part's value."""
    options = context.options
    return (
        context.times_ms.tobytes(),
        context.start_ms,
        context.end_ms,
        context.step_ms,
        id(context.queryable),
        options.lookback_ms,
        options.default_step_ms,
        options.delayed_name_removal,
    )


def _candidates(tree: Expr, enter: Callable[[str], bool]) -> Iterator[tuple[Expr, str]]:
    """Parts of a tree that could be shared, from the outside in; and their own, if `enter` says."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Call | Aggregate | Binary) and type_of(node) is ValueType.VECTOR:
            text = format_expression(node)
            yield node, text
            if not enter(text):
                continue
        # The steps of a subquery are its own.
        if not isinstance(node, Subquery):
            pending += reversed(children(node))


def _common_parts(trees: Sequence[Expr]) -> dict[int, _Part]:
    texts: Counter[str] = Counter()
    for tree in trees:
        # What only ever occurs inside of another shared part is computed once anyway.
        for _, text in _candidates(tree, lambda text: texts[text] == 1):
            texts[text] += 1
    return {
        id(node): _Part(text, tuple(one.span.start for one in walk(node)))
        for tree in trees
        for node, text in _candidates(tree, lambda _: True)
        if texts[text] > 1
    }


def _common_leaves(trees: Iterable[Expr]) -> frozenset[int]:
    leaves: dict[Hashable, list[int]] = {}
    for tree in trees:
        inside = set()
        for node in walk(tree):
            if isinstance(node, MatrixSelector):
                inside.add(id(node.selector))
                key = (matcher_key(node.selector.matchers), node.range.milliseconds)
                leaves.setdefault(key, []).append(id(node))
            elif isinstance(node, VectorSelector) and id(node) not in inside:
                leaves.setdefault((matcher_key(node.matchers), None), []).append(id(node))
    return frozenset(one for nodes in leaves.values() if len(nodes) > 1 for one in nodes)
