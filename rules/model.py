"""Rules as data, after loading: every expression parsed, every duration in milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rules.promql.ast import Expr
    from rules.source import Source, Span


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression, its text as written, and where that text sits in its file.

    `offsets[i]` is the offset in `source` of character i of `text` (len(text) + 1 entries), so
    that a span in the expression can be shown in the file whatever YAML style it is written in.
    """

    text: str
    # The text says it all, and comparing trees would recurse as deep as they are.
    tree: Expr = field(compare=False)
    source: Source = field(repr=False, compare=False)
    offsets: Sequence[int] = field(repr=False, compare=False)


# While this annotation's expression holds, an alert that fires goes on firing.
RESOLVE_ANNOTATION = "stallwatch_resolve_expr"


@dataclass(frozen=True, slots=True)
class AlertingRule:
    """`alert:`. `labels` and `annotations` values are templates; group labels are merged in.

    `resolve`: the expression of the annotation RESOLVE_ANNOTATION; None where there is none.
    """

    name: str
    expression: Expression
    for_ms: int
    keep_firing_for_ms: int
    labels: dict[str, str]
    annotations: dict[str, str]
    span: Span
    resolve: Expression | None = None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All that is evaluated, in this order."""
        return (self.expression,) if self.resolve is None else (self.expression, self.resolve)


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """`record:`. Group labels are merged in."""

    name: str
    expression: Expression
    labels: dict[str, str]
    span: Span

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All that is evaluated."""
        return (self.expression,)


Rule: TypeAlias = AlertingRule | RecordingRule


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that run in order at the same times. `interval_ms` None: the global one.

    `limit` 0: none. `query_offset_ms` None: the global one.
    """

    name: str
    file: str
    interval_ms: int | None
    query_offset_ms: int | None
    limit: int
    labels: dict[str, str]
    rules: tuple[Rule, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class RuleFile:
    """One loaded file."""

    path: str
    groups: tuple[Group, ...]
    source: Source = field(repr=False, compare=False)
