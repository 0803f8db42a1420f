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
from rules.lint.presence import WRITTEN_BY_ALERTS, inside_absent
from rules.promql.walk import selectors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rules.lint.subject import Data, Subject
    from rules.promql.ast import Matcher
    from rules.source import Problem

CODE = "no-data"


def check(subject: Subject) -> Iterator[Problem]:
    """Each selector that matches no series."""
    data = subject.settings.data
    if data is None:
        return
    tree = subject.rule.expression.tree
    hidden = inside_absent(tree)
    for selector in selectors(tree):
        if id(selector) in hidden:
            continue
        if selector.name in subject.recorded or selector.name in WRITTEN_BY_ALERTS:
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
