"""Alerting rules without a file, and their contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.alerts.machine import AlertContext
from engine.alerts.templates import AlertTemplates
from rules.model import AlertingRule, Expression
from rules.promql.ast import NumberLiteral
from rules.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Callable

    MakeContext = Callable[..., AlertContext]


@pytest.fixture
def make_context() -> MakeContext:
    """An alerting rule's context; durations in milliseconds."""

    def make(
        *,
        for_ms: int = 0,
        keep_firing_for_ms: int = 0,
        limit: int = 0,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> AlertContext:
        tree = NumberLiteral(Span(0, 1), 1.0)
        rule = AlertingRule(
            name="Stalled",
            expression=Expression("1", tree, Source("rules.yaml", "1"), (0, 1)),
            for_ms=for_ms,
            keep_firing_for_ms=keep_firing_for_ms,
            labels=labels or {},
            annotations=annotations or {},
            span=Span(0, 1),
        )
        return AlertContext(rule, AlertTemplates(rule), "rules.yaml", "comm", limit)

    return make
