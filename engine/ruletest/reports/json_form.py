"""Verdicts as a JSON object."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.ruletest.verdict import Failure, ScenarioVerdict, SuiteVerdict
    from rules.source import Problem, Source, Span


def report(verdicts: Iterable[SuiteVerdict]) -> list[dict[str, Any]]:
    """One object per file, in order."""
    return [_suite(one) for one in verdicts]


def _suite(verdict: SuiteVerdict) -> dict[str, Any]:
    return {
        "file": verdict.path,
        "status": verdict.status,
        "checks": verdict.checks,
        "problems": [_problem(problem) for problem in verdict.problems],
        "tests": [_scenario(one) for one in verdict.scenarios],
    }


def _scenario(verdict: ScenarioVerdict) -> dict[str, Any]:
    return {
        "name": verdict.scenario.title,
        "status": "failed" if verdict.failures else "passed",
        "checks": verdict.checks,
        "seconds": round(verdict.seconds, 6),
        "failures": [_failure(failure) for failure in verdict.failures],
        "skipped": [
            {**_place(one.source, one.span), "subject": one.subject, "reason": one.reason}
            for one in verdict.skipped
        ],
        "warnings": list(verdict.warnings),
    }


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        **_place(failure.source, failure.span),
        "subject": failure.subject,
        "message": failure.message,
        "differences": [asdict(difference) for difference in failure.differences],
        "hint": failure.hint,
    }


def _problem(problem: Problem | str) -> dict[str, Any]:
    if isinstance(problem, str):
        return {"file": "", "line": None, "column": None, "message": problem, "hint": ""}
    return {
        **_place(problem.source, problem.span),
        "message": problem.message,
        "hint": problem.hint,
    }


def _place(source: Source, span: Span) -> dict[str, Any]:
    line, column = source.position(span.start)
    return {"file": source.name, "line": line, "column": column}
