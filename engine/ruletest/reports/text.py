"""Verdicts as text for people: what was expected, what there is, and where it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.terminal import harmless
from rules.source import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.ruletest.verdict import (
        Failure,
        FieldDifference,
        ItemDifference,
        SuiteVerdict,
    )

# What an absent label or annotation is shown as; no value looks like that, being in quotes.
ABSENT = "(none)"


def render_suite(verdict: SuiteVerdict) -> str:
    """Everything about one file, its summary last."""
    return harmless("\n".join(_lines(verdict)), kept="\n\t")


def render_failure(failure: Failure, scenario: str = "") -> str:
    """The place, what was expected and what there is."""
    within = f" in test '{scenario}'" if scenario else ""
    head = f"{failure.subject}{within}: {failure.message}"
    problem = Problem(failure.source, failure.span, head)
    lines = [problem.render()]
    for difference in failure.differences:
        lines += [f"    {line}" for line in _difference(difference)]
    if failure.hint:
        lines.append(f"    hint: {failure.hint}")
    return "\n".join(lines)


def _lines(verdict: SuiteVerdict) -> Iterator[str]:
    for problem in verdict.problems:
        yield problem.render() if isinstance(problem, Problem) else problem
    for scenario in verdict.scenarios:
        for failure in scenario.failures:
            yield render_failure(failure, scenario.scenario.title)
        for skipped in scenario.skipped:
            yield f"{skipped.place}: {skipped.subject}: not checked: {skipped.reason}"
        for warning in scenario.warnings:
            yield f"warning: test '{scenario.scenario.title}': {warning}"
    yield _summary(verdict)


def _summary(verdict: SuiteVerdict) -> str:
    tests = _count(len(verdict.scenarios), "test")
    skipped = f", {len(verdict.skipped)} not checked" if verdict.skipped else ""
    if verdict.status == "error":
        return f"{verdict.path}: ERROR: it could not run"
    if verdict.status == "passed":
        return f"{verdict.path}: SUCCESS: {tests}, {_count(verdict.checks, 'check')}{skipped}"
    failed = sum(bool(one.failures) for one in verdict.scenarios)
    failures = _count(len(verdict.failures), "failure")
    return f"{verdict.path}: FAILED: {failures} in {failed} of {tests}{skipped}"


def _difference(difference: ItemDifference) -> Iterator[str]:
    if difference.got is None:
        yield f"- expected  {difference.expected}"
    elif difference.expected is None:
        yield f"+ got       {difference.got}"
    else:
        yield f"  expected  {difference.expected}"
        yield f"  got       {difference.got}"
        for field in difference.fields:
            yield from _field(field)


def _field(field: FieldDifference) -> Iterator[str]:
    name = field.name if field.kind == "part" else f"{field.kind} {field.name}".rstrip()
    yield f"    {name}"
    yield f"      - {_shown(field.kind, field.expected)}"
    yield f"      + {_shown(field.kind, field.got)}"


def _shown(kind: str, value: str | None) -> str:
    if value is None:
        return ABSENT
    return f'"{value}"' if kind in {"label", "annotation"} else value


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
