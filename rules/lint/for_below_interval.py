"""`for` is shorter than the evaluation interval.

An alert is looked at once an interval. With `for` at or above 1 ms and below the interval it
fires at its second evaluation, one whole interval after the first: `for: 5s` waits 10 s where
rules are evaluated every 10 s.

```yaml
groups:
  - name: found
    interval: 1m
    rules:
      - alert: TaskStalled
        expr: max by (task_id) (comm_wait_ratio) > 0.95
        for: 30s
```

Say 0 to fire at once, or a multiple of the interval:

```yaml
groups:
  - name: mended
    interval: 1m
    rules:
      - alert: TaskStalled
        expr: max by (task_id) (comm_wait_ratio) > 0.95
        for: 2m
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.durations import format_duration
from rules.model import AlertingRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.lint.subject import Subject
    from rules.source import Problem

CODE = "for-below-interval"


def check(subject: Subject) -> Iterator[Problem]:
    """Alerts whose `for` ends between two evaluations."""
    rule = subject.rule
    if isinstance(rule, AlertingRule) and 0 < rule.for_ms < subject.interval_ms:
        interval = format_duration(subject.interval_ms)
        yield subject.at(
            CODE,
            subject.key_span("for"),
            f"'for: {format_duration(rule.for_ms)}' is shorter than the interval of {interval}: "
            f"the alert waits {interval}",
            f"0 to fire at once, or a multiple of {interval}",
        )
