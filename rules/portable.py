"""What in a rule file Prometheus would not load, or only behind a feature flag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.groups import place
from rules.promql.features import features
from rules.source import Problem

if TYPE_CHECKING:
    from rules.model import Expression, RuleFile


def portability(file: RuleFile) -> tuple[Problem, ...]:
    """Each use of what is not stable PromQL, in file order."""
    found = [
        problem
        for group in file.groups
        for rule in group.rules
        for problem in _expression(rule.expression)
    ]
    return tuple(sorted(dict.fromkeys(found), key=lambda problem: problem.span))


def _expression(expression: Expression) -> list[Problem]:
    return [
        Problem(
            expression.source,
            place(expression.offsets, feature.span),
            f"'{feature.name}' is not stable PromQL",
            f"Prometheus reads it only with --enable-feature={feature.flag}",
            code="portable",
        )
        for feature in features(expression.tree)
    ]
