"""A template uses a label that the expression's result never has.

An aggregation keeps the labels it groups by, `on (...)` those it matches on; everything else
is gone, and `{{ $labels.x }}` becomes an empty text. `$labels` holds the labels of the result:
those that the rule adds below `labels:` are not among them.

```yaml
groups:
  - name: found
    rules:
      - alert: TaskRetransmits
        expr: sum by (task_id) (rate(tcp_retrans_total[5m])) > 0.5
        annotations:
          summary: "rank {{ $labels.rank }} of {{ $labels.task_id }} retransmits"
```

Group by the label as well, or do without it:

```yaml
groups:
  - name: mended
    rules:
      - alert: TaskRetransmits
        expr: sum by (task_id, rank) (rate(tcp_retrans_total[5m])) > 0.5
        annotations:
          summary: "rank {{ $labels.rank }} of {{ $labels.task_id }} retransmits"
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.lint.template_reads import labels_read
from rules.model import AlertingRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.lint.subject import Subject
    from rules.source import Problem

CODE = "label-not-in-result"


def check(subject: Subject) -> Iterator[Problem]:
    """Each use of a label that cannot be there."""
    if not isinstance(subject.rule, AlertingRule):
        return
    flow = subject.analysis.flow(subject.analysis.expr)
    for template in (*subject.templates("labels"), *subject.templates("annotations")):
        for label, span in labels_read(template.text):
            if flow.can_have(label):
                continue
            names = ", ".join(sorted(flow.names)) or "none"
            has = "" if flow.is_open else f"; its labels: {names}"
            hint = "keep it: add it to by (...) or on (...)"
            if label in subject.rule.labels:
                hint = "$labels are the result's labels, without those that the rule adds"
            yield subject.in_template(
                CODE,
                template,
                span,
                f"the result never has the label '{label}'{has}",
                hint,
            )
