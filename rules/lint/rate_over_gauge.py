"""A function for counters reads something that is not a counter.

`rate`, `increase`, `irate` and `resets` take every fall of a value for a restart and add
what was there before. On a gauge, which goes up and down, that gives large numbers without meaning.
By convention a counter's name ends in `_total`, `_sum`, `_count` or `_bucket`. A sum over
counters is not a counter either: one of them restarts, the sum falls by a part, and the
function takes all of it for a restart.

```yaml
groups:
  - name: found
    rules:
      - record: task:gpu_utilization:rate5m
        expr: rate(gpu_utilization[5m])
```

Use `deriv` or `delta` for a gauge, and take the rate before the sum:

```yaml
groups:
  - name: mended
    rules:
      - record: task:gpu_utilization:deriv5m
        expr: deriv(gpu_utilization[5m])
      - record: task:tcp_retrans:rate5m
        expr: sum by (task_id) (rate(tcp_retrans_total[5m]))
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.promql.ast import Aggregate, Call, MatrixSelector, Subquery
from rules.promql.walk import calls, unwrapped, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.lint.subject import Subject
    from rules.source import Problem

CODE = "rate-over-gauge"
_FOR_COUNTERS = frozenset({"increase", "irate", "rate", "resets"})
_INSTEAD = {"increase": "delta", "irate": "idelta", "rate": "deriv", "resets": "changes"}
_COUNTER_SUFFIXES = ("_total", "_sum", "_count", "_bucket")


def check(subject: Subject) -> Iterator[Problem]:
    """Each counter function over a gauge or over an aggregate."""
    for call in calls(subject.rule.expression.tree):
        if call.func not in _FOR_COUNTERS:
            continue
        read = unwrapped(call.args[0])
        if isinstance(read, MatrixSelector):
            yield from _of_selector(subject, call, read)
        elif isinstance(read, Subquery):
            yield from _of_subquery(subject, call, read)


def _of_selector(subject: Subject, call: Call, read: MatrixSelector) -> Iterator[Problem]:
    name = read.selector.name
    if name and not name.endswith(_COUNTER_SUFFIXES):
        yield subject.in_expression(
            CODE,
            read.selector.span,
            f"{call.func} is for counters, and '{name}' does not look like one",
            f"for a gauge use {_INSTEAD[call.func]}; a counter's name ends in _total",
        )


def _of_subquery(subject: Subject, call: Call, read: Subquery) -> Iterator[Problem]:
    aggregate = next((node for node in walk(read.expr) if isinstance(node, Aggregate)), None)
    if aggregate is not None and unwrapped(read.expr) is aggregate:
        yield subject.in_expression(
            CODE,
            aggregate.span,
            f"{call.func} of {aggregate.op}(): the reset of one counter looks like a reset of all",
            f"the other way round: {aggregate.op}({call.func}(...[5m]))",
        )
