"""A label's value changes from one evaluation to the next.

Labels are an alert's identity. One that holds the measured value is another alert whenever the
value moves: the old one resolves, the new one starts its `for` from the beginning, and with a
`for` of any length none may ever fire. Everyone who is told gets one message per value.

```yaml
groups:
  - name: found
    rules:
      - alert: GpuIdle
        expr: gpu_utilization < 60
        for: 10m
        labels:
          utilization: "{{ $value }}"
```

The value belongs into an annotation, which may change:

```yaml
groups:
  - name: mended
    rules:
      - alert: GpuIdle
        expr: gpu_utilization < 60
        for: 10m
        annotations:
          summary: "GPU at {{ $value }} %"
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.lint.template_reads import changing
from rules.model import AlertingRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.lint.subject import Subject
    from rules.source import Problem

CODE = "changing-label"


def check(subject: Subject) -> Iterator[Problem]:
    """Labels with the value, the time or a query's result in them."""
    if not isinstance(subject.rule, AlertingRule):
        return
    for template in subject.templates("labels"):
        for what, span in changing(template.text):
            yield subject.in_template(
                CODE,
                template,
                span,
                f"the label '{template.name}' changes with {what}: every change is a new alert, "
                "and 'for' starts over",
                "put it into an annotation",
            )
