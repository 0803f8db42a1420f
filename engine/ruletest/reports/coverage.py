"""Coverage as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rules.groups import place
from rules.promql.tokens import shorten
from rules.source import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.ruletest.coverage import ComparisonCoverage, Coverage, RuleCoverage
    from rules.source import Span


def render(coverage: Coverage) -> str:
    """What is not covered, each at its place, and the totals."""
    return "\n".join([*_gaps(coverage), _totals(coverage)])


def report(coverage: Coverage) -> dict[str, Any]:
    """The same as a JSON object, what is covered included."""
    return {
        "rules": len(coverage.rules),
        "evaluated": sum(one.gave for one in coverage.rules),
        "comparisons": _comparison_count(coverage),
        "comparisons_covered": _covered_count(coverage),
        "details": [_rule(one) for one in coverage.rules],
    }


def _gaps(coverage: Coverage) -> Iterator[str]:
    for about in coverage.rules:
        source = about.rule.expression.source
        if not about.gave:
            message = f"rule {about.rule.name}: no test evaluates it to anything"
            yield Problem(source, _whole(about), message, severity="warning").render()
        for comparison in about.comparisons:
            lacking = _lacking(comparison)
            if lacking:
                span = place(comparison.expression.offsets, comparison.node.span)
                message = f"rule {about.rule.name}: {lacking}"
                yield Problem(source, span, message, severity="warning").render()


def _whole(about: RuleCoverage) -> Span:
    expression = about.rule.expression
    return place(expression.offsets, expression.tree.span)


def _lacking(comparison: ComparisonCoverage) -> str:
    if comparison.saw_true and not comparison.saw_false:
        return "no test has an element for which this comparison is false"
    if comparison.saw_false and not comparison.saw_true:
        return "no test has an element for which this comparison is true"
    return "" if comparison.covered else "no test has an element to compare here"


def _totals(coverage: Coverage) -> str:
    evaluated = sum(one.gave for one in coverage.rules)
    return (
        f"coverage: {evaluated} of {len(coverage.rules)} rules gave a result, "
        f"{_covered_count(coverage)} of {_comparison_count(coverage)} comparisons were seen true "
        "and false"
    )


def _comparison_count(coverage: Coverage) -> int:
    return sum(len(one.comparisons) for one in coverage.rules)


def _covered_count(coverage: Coverage) -> int:
    return sum(comparison.covered for one in coverage.rules for comparison in one.comparisons)


def _rule(about: RuleCoverage) -> dict[str, Any]:
    return {
        "file": about.group.file,
        "group": about.group.name,
        "rule": about.rule.name,
        **_position(about, _whole(about)),
        "evaluated": about.gave,
        "comparisons": [_comparison(about, one) for one in about.comparisons],
    }


def _comparison(about: RuleCoverage, comparison: ComparisonCoverage) -> dict[str, Any]:
    expression, span = comparison.expression, comparison.node.span
    return {
        "text": shorten(expression.text[span.start : span.end], 200),
        **_position(about, place(expression.offsets, span)),
        "true": comparison.saw_true,
        "false": comparison.saw_false,
    }


def _position(about: RuleCoverage, span: Span) -> dict[str, int]:
    line, column = about.rule.expression.source.position(span.start)
    return {"line": line, "column": column}
