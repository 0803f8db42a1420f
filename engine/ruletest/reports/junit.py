"""Verdicts as JUnit XML, which every CI system reads.

There is no standard; this is the common part of what Jenkins, GitLab and GitHub's actions take
(https://github.com/testmoapp/junitxml describes it): testsuites, testsuite, testcase with failure,
error or skipped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from engine.ruletest.reports.text import render_failure
from rules.source import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.ruletest.verdict import ScenarioVerdict, SuiteVerdict

# What XML 1.0 has no way to write (production Char, negated).
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(verdicts: Sequence[SuiteVerdict]) -> str:
    """The whole document."""
    return "\n".join(_document(verdicts)) + "\n"


def _document(verdicts: Sequence[SuiteVerdict]) -> Iterator[str]:
    seconds = sum(one.seconds for suite in verdicts for one in suite.scenarios)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield (f'<testsuites name="stallwatch test" {_counts(verdicts)} time="{seconds:.3f}">')
    for verdict in verdicts:
        yield from _suite(verdict)
    yield "</testsuites>"


def _counts(verdicts: Sequence[SuiteVerdict]) -> str:
    scenarios = [one for suite in verdicts for one in suite.scenarios]
    errors = sum(suite.status == "error" for suite in verdicts)
    failed = sum(bool(one.failures) for one in scenarios)
    skipped = sum(_is_skipped(one) for one in scenarios)
    return (
        f'tests="{len(scenarios) + errors}" failures="{failed}" errors="{errors}" '
        f'skipped="{skipped}"'
    )


def _suite(verdict: SuiteVerdict) -> Iterator[str]:
    seconds = sum(one.seconds for one in verdict.scenarios)
    name = _attribute(verdict.path)
    yield f'  <testsuite name={name} file={name} {_counts([verdict])} time="{seconds:.3f}">'
    if verdict.problems:
        texts = [p.render() if isinstance(p, Problem) else p for p in verdict.problems]
        first = verdict.problems[0]
        message = first.message if isinstance(first, Problem) else first.split("\n", 1)[0]
        yield f'    <testcase name="load" classname={name} file={name} time="0.000">'
        yield f'      <error message={_attribute(message)} type="load">{_text(texts)}</error>'
        yield "    </testcase>"
    for scenario in verdict.scenarios:
        yield from _case(verdict, scenario)
    yield "  </testsuite>"


def _case(verdict: SuiteVerdict, scenario: ScenarioVerdict) -> Iterator[str]:
    place = _attribute(verdict.path)
    title = _attribute(scenario.scenario.title)
    opening = (
        f'    <testcase name={title} classname={place} file={place} line="{scenario.line}" '
        f'time="{scenario.seconds:.3f}"'
    )
    if not scenario.failures and not _is_skipped(scenario):
        yield f"{opening}/>"
        return
    yield f"{opening}>"
    for failure in scenario.failures:
        message = _attribute(f"{failure.subject}: {failure.message}")
        kind = failure.subject.split(" ", 1)[0]
        body = _text([render_failure(failure)])
        yield f'      <failure message={message} type="{kind}">{body}</failure>'
    if _is_skipped(scenario):
        subjects = ", ".join(one.subject for one in scenario.skipped)
        yield f"      <skipped message={_attribute(f'{scenario.skipped[0].reason}: {subjects}')}/>"
    yield "    </testcase>"


def _is_skipped(scenario: ScenarioVerdict) -> bool:
    """One that was neither checked in full nor failed."""
    return bool(scenario.skipped) and not scenario.failures


def _attribute(text: str) -> str:
    return quoteattr(_UNWRITABLE.sub("\ufffd", text))


def _text(parts: Iterable[str]) -> str:
    return escape(_UNWRITABLE.sub("\ufffd", "\n".join(parts)))
