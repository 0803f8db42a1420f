"""What in a rule file Prometheus would not load, or only behind a feature flag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.groups import place
from rules.promql.features import OURS, features
from rules.source import Problem

if TYPE_CHECKING:
    from rules.model import Expression, RuleFile
    from rules.promql.features import Feature


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
            *_told(feature),
            code="portable",
        )
        for feature in features(expression.tree)
    ]


def _told(feature: Feature) -> tuple[str, str]:
    if feature.flag == OURS:
        hint = "Prometheus refuses the rule: record the result here and let it read that"
        return f"'{feature.name}' is stallwatch's own", hint
    hint = f"Prometheus reads it only with --enable-feature={feature.flag}"
    return f"'{feature.name}' is not stable PromQL", hint
