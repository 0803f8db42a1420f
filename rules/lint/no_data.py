"""A selector finds nothing in the data that the rules were checked against.

Only with `--data`. A metric with another name, a label with another value, a label that
the series do not have: the rule loads, runs and never sees anything. Names that a rule of the
same check records are left out, and so is what stands inside `absent`.

```yaml
groups:
  - name: found
    rules:
      - alert: TaskRetransmits
        expr: rate(tcp_retransmits_total[5m]) > 0.5
```

`stallwatch query NAME --data PATH` shows what there is:

```yaml
groups:
  - name: mended
    rules:
      - alert: TaskRetransmits
        expr: rate(tcp_retrans_total[5m]) > 0.5
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.fields import nearest
from rules.lint.label_flow import NAME
from rules.lint.presence import ABSENCE
from rules.promql.ast import Call, VectorSelector, children
from rules.promql.walk import selectors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rules.lint.subject import Data, Subject
    from rules.promql.ast import Expr, Matcher
    from rules.source import Problem

CODE = "no-data"
_WRITTEN_BY_ALERTS = frozenset({"ALERTS", "ALERTS_FOR_STATE"})


def check(subject: Subject) -> Iterator[Problem]:
    """Each selector that matches no series."""
    data = subject.settings.data
    if data is None:
        return
    for selector in _asked(subject.rule.expression.tree):
        if selector.name in subject.recorded or selector.name in _WRITTEN_BY_ALERTS:
            continue
        if data.matches(selector.matchers):
            continue
        guilty = _guilty(data, selector.matchers)
        if guilty is None:
            message = "no series in the data satisfies all of these matchers together"
            yield subject.in_expression(CODE, selector.span, message)
        elif guilty.label == NAME:
            names = data.metric_names()
            close = nearest(guilty.value, names) if guilty.op == "=" else ""
            yield subject.in_expression(
                CODE,
                guilty.span,
                f"there is no metric '{guilty.value}' in the data",
                f"did you mean '{close}'?" if close else "",
            )
        else:
            shown = f'{guilty.label}{guilty.op}"{guilty.value}"'
            message = f"no series of this metric in the data satisfies {shown}"
            yield subject.in_expression(CODE, guilty.span, message)


def _asked(expr: Expr) -> Iterator[VectorSelector]:
    """Selectors that are hoped to find something."""
    hidden: set[int] = set()
    for node in selectors(expr):
        if not hidden:
            hidden = _inside_absent(expr) or {0}
        if id(node) not in hidden:
            yield node


def _inside_absent(expr: Expr) -> set[int]:
    found: set[int] = set()
    pending: list[tuple[Expr, bool]] = [(expr, False)]
    while pending:
        node, inside = pending.pop()
        if inside:
            found.add(id(node))
        inside = inside or (isinstance(node, Call) and node.func in ABSENCE)
        pending += [(child, inside) for child in children(node)]
    return found


def _guilty(data: Data, matchers: Sequence[Matcher]) -> Matcher | None:
    """The metric's name if nothing has it, else the first matcher that nothing of it satisfies."""
    named = [one for one in matchers if one.label == NAME]
    for one in named:
        if not data.matches([one]):
            return one
    for one in matchers:
        if one.label != NAME and not data.matches([*named, one]):
            return one
    return None
