"""A part of the expression can never give anything.

The expression loads, and no data can make the part at the caret true: a bound that the values
cannot cross (`comm_wait_ratio` is a ratio of 0 to 1, `count()` is at least 1), two sides whose
labels never agree, matchers that contradict each other, a window too short for two samples.

```yaml
groups:
  - name: found
    rules:
      - alert: RanksWait
        expr: avg by (task_id) (comm_wait_ratio) > 30
```

Mend it by asking for what can happen:

```yaml
groups:
  - name: mended
    rules:
      - alert: RanksWait
        expr: avg by (task_id) (comm_wait_ratio) > 0.3
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.lint.presence import Presence
from rules.model import AlertingRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.lint.subject import Subject
    from rules.source import Problem

CODE = "never-fires"


def check(subject: Subject) -> Iterator[Problem]:
    """Each part that gives nothing, and what that means for the rule."""
    rule, analysis = subject.rule, subject.analysis
    end = ""
    if analysis.presence(analysis.expr) is Presence.NEVER:
        end = "the alert never fires" if isinstance(rule, AlertingRule) else "nothing is recorded"
    for reason in analysis.impossible:
        message = f"{reason.message}; {end}" if end else reason.message
        yield subject.in_expression(CODE, reason.span, message, reason.hint)
