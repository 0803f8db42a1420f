"""The alert fires whatever the values are, and goes on for as long as its series exist.

An alert fires for every element that its expression gives. An expression without a condition gives
all of them, and `> bool` turns a condition into a value: 0 fires as well as 1. A comparison
that always holds is no condition either. A counter that has once passed a threshold stays there
until its process restarts.

```yaml
groups:
  - name: found
    rules:
      - alert: ExecStorm
        expr: process_exec_total > 1000
```

Compare, without `bool`, with a value that is not always reached; of a counter, its rate:

```yaml
groups:
  - name: mended
    rules:
      - alert: ExecStorm
        expr: rate(process_exec_total[5m]) > 10
```

An alert that is meant to fire always (to show that alerting works) says so with the annotation
`stallwatch_lint_ignore: never-resolves`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.lint.presence import Presence
from rules.model import AlertingRule
from rules.promql.ast import Aggregate, Binary, NumberLiteral, VectorSelector
from rules.promql.tokens import COMPARISONS
from rules.promql.walk import unwrapped, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.lint.subject import Subject
    from rules.promql.ast import Expr
    from rules.source import Problem

CODE = "never-resolves"
_KEEPS_RISING = frozenset({"sum", "max", "min", "avg"})


def check(subject: Subject) -> Iterator[Problem]:
    """Alerts without a condition that can end."""
    if not isinstance(subject.rule, AlertingRule):
        return
    analysis = subject.analysis
    presence = analysis.presence(analysis.expr)
    endless = presence >= Presence.WHILE_SERIES_EXIST
    # Where something else is a condition, a comparison that always holds does no harm.
    for reason in analysis.certain if endless else ():
        yield subject.in_expression(CODE, reason.span, reason.message, reason.hint)
    if endless and not analysis.certain:
        what = "always" if presence is Presence.ALWAYS else "for as long as the series exist"
        yield subject.in_expression(
            CODE,
            analysis.expr.span,
            f"there is no condition: the alert fires {what}, whatever the values",
            _hint(analysis.expr),
        )
    for side in _alternatives(analysis.expr):
        counter = _passed_counter(side)
        if counter is not None:
            yield subject.in_expression(
                CODE,
                side.span,
                f"'{counter}' is a counter: once past the threshold it stays there until a restart",
                f"compare how fast it grows: rate({counter}[5m]), increase({counter}[1h])",
            )


def _hint(expr: Expr) -> str:
    for node in walk(expr):
        if isinstance(node, Binary) and node.return_bool:
            return f"'{node.op} bool' gives 0 or 1, and both fire; without bool it filters"
    return "compare with a threshold, as in ... > 0"


def _alternatives(expr: Expr) -> Iterator[Expr]:
    """What any of `a or b` may bring."""
    pending = [expr]
    while pending:
        node = unwrapped(pending.pop())
        if isinstance(node, Binary) and node.op == "or":
            pending += [node.rhs, node.lhs]
        else:
            yield node


def _passed_counter(node: Expr) -> str | None:
    """The counter that `counter > number` compares as it is."""
    if not isinstance(node, Binary) or node.op not in COMPARISONS or node.return_bool:
        return None
    sides = {">": (node.lhs, node.rhs), ">=": (node.lhs, node.rhs)}
    sides |= {"<": (node.rhs, node.lhs), "<=": (node.rhs, node.lhs)}
    large, small = sides.get(node.op, (None, None))
    if large is None or not isinstance(small, NumberLiteral):
        return None
    large = unwrapped(large)
    while isinstance(large, Aggregate) and large.op in _KEEPS_RISING:
        large = unwrapped(large.expr)
    if not isinstance(large, VectorSelector) or not (large.name or "").endswith("_total"):
        return None
    return large.name
