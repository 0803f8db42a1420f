"""Runs unit-test files: load, simulate, check, one verdict a file."""

from __future__ import annotations

import difflib
import glob
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import NEEDS_HISTOGRAMS, EvaluationError, NeedsNativeHistograms
from engine.promql.value import Scalar, Vector
from engine.rulegroup.dependencies import reads_in, reads_of
from engine.ruletest.comparison import Sample, compare_alerts, compare_samples
from engine.ruletest.loader import load_suite
from engine.ruletest.simulation import MOST_EVALUATIONS, evaluations, simulate
from engine.ruletest.verdict import (
    Failure,
    ScenarioVerdict,
    Skipped,
    SuiteVerdict,
)
from rules.decoding import UnreadableError
from rules.durations import format_duration
from rules.errors import StallwatchError
from rules.groups import place
from rules.loader import load_file
from rules.model import AlertingRule
from rules.promql.tokens import shorten
from rules.slotted import dataclass, field
from rules.source import Problem, ProblemsError, Span

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from engine.ruletest.coverage import Coverage
    from engine.ruletest.model import AlertCheck, ExpressionCheck, RuleFilePattern, Scenario, Suite
    from engine.ruletest.simulation import FailedRule, Simulation
    from engine.ruletest.verdict import ItemDifference
    from engine.series import Series
    from rules.model import Group, Rule


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`run`: only the tests whose name it finds. `ignore_unknown_fields`: those of rule files.

    `coverage` takes in what the tests try; it changes no verdict. `start_timestamps`: whether they
    tell of resets.
    """

    run: re.Pattern[str] | None = None
    ignore_unknown_fields: bool = False
    coverage: Coverage | None = None
    start_timestamps: bool = False


def run_file(path: str | Path, options: RunOptions | None = None) -> SuiteVerdict:
    """Run one unit-test file. What keeps it from running is in the verdict, not raised."""
    options = options or RunOptions()
    try:
        suite = load_suite(path, options.run)
        groups = load_groups(suite, options) if suite.scenarios else ()
        if options.coverage is not None:
            options.coverage.register(groups)
        scenarios = (run_scenario(suite, one, groups, options) for one in suite.scenarios)
        return SuiteVerdict(str(path), tuple(scenarios))
    except ProblemsError as error:
        return SuiteVerdict(str(path), problems=error.problems)
    except StallwatchError as error:
        return SuiteVerdict(str(path), problems=(str(error),))


def load_groups(suite: Suite, options: RunOptions) -> tuple[Group, ...]:
    """The groups of all rule files, those that `group_eval_order` names first, in its order.

    Raises ProblemsError: a pattern that matches nothing, every error of the rule files.
    """
    problems: list[Problem] = []
    groups: list[Group] = []
    for path in _rule_files(suite, problems):
        try:
            loaded = load_file(path, ignore_unknown_fields=options.ignore_unknown_fields)
        except UnreadableError as error:
            raise StallwatchError(f"{suite.path}: {error}") from None
        problems += [problem for problem in loaded.problems if problem.severity == "error"]
        if loaded.file is not None:
            groups += loaded.file.groups
    if problems:
        raise ProblemsError(problems)
    # As promtool: a group that is not named counts as the first that is.
    order = {name: index for index, name in enumerate(suite.group_order)}
    return tuple(sorted(groups, key=lambda group: order.get(group.name, 0)))


def _rule_files(suite: Suite, problems: list[Problem]) -> list[Path]:
    folder = Path(suite.path).parent
    found: dict[Path, None] = {}
    for pattern in suite.rule_files:
        matches = sorted(glob.glob(str(folder / pattern.text)))  # noqa: PTH207 - an absolute pattern, too
        if not matches or not pattern.text:
            problems.append(_unmatched(suite, pattern, folder))
        found.update((_shown(Path(match)), None) for match in matches)
    return list(found)


def _shown(path: Path) -> Path:
    """A path without `..` in the middle of it, from here where it is below."""
    if ".." not in path.parts:
        return path
    whole = path.resolve()
    return whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else whole


def _unmatched(suite: Suite, pattern: RuleFilePattern, folder: Path) -> Problem:
    hint = f"paths are relative to the folder of this file, {folder.resolve()}"
    message = f"no rule file matches '{pattern.text[:200]}'"
    return Problem(suite.source, pattern.span, message, hint, code="rule-files")


def run_scenario(
    suite: Suite,
    scenario: Scenario,
    groups: tuple[Group, ...],
    options: RunOptions,
) -> ScenarioVerdict:
    """Simulate one test and check everything that it expects.

    Raises ProblemsError for more evaluations than anybody means.
    """
    if evaluations(scenario, suite.evaluation_interval_ms) > MOST_EVALUATIONS:
        message = f"more than {MOST_EVALUATIONS:,} evaluations up to the last eval_time"
        hint = "a longer evaluation_interval, or an earlier eval_time"
        raise ProblemsError([Problem(suite.source, scenario.span, message, hint, "time")])
    started = time.perf_counter()
    simulation = simulate(
        scenario,
        groups,
        suite.evaluation_interval_ms,
        start_timestamps=options.start_timestamps,
    )
    checks = _Checks(suite, simulation)
    for failed in simulation.failures.values():
        checks.rule_failed(failed)
    for alert_check in scenario.alert_checks:
        checks.alerts(alert_check)
    for expression_check in scenario.expression_checks:
        checks.expression(expression_check)
    seconds = time.perf_counter() - started
    if options.coverage is not None:
        options.coverage.add(simulation)
    return ScenarioVerdict(
        scenario,
        line=suite.source.position(scenario.span.start)[0],
        checks=len(scenario.alert_checks) + len(scenario.expression_checks) - len(checks.skipped),
        failures=tuple(sorted(checks.failures, key=lambda failure: failure.span.start)),
        skipped=tuple(checks.skipped),
        warnings=tuple(simulation.warnings),
        seconds=seconds,
    )


@dataclass(slots=True)
class _Checks:
    suite: Suite
    simulation: Simulation
    failures: list[Failure] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    undecided: list[Rule] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Rules that would have needed native histograms, and those that read them, and so on."""
        rules = [runner.rule for runner in self.simulation.runners]
        known = [
            failed.rule
            for (_, message), failed in self.simulation.failures.items()
            if NEEDS_HISTOGRAMS in message
        ]
        while known:
            self.undecided += known
            unknown = [rule for rule in rules if rule not in self.undecided]
            known = [r for r in unknown if any(map(reads_of(r).touches, self.undecided))]

    def rule_failed(self, failed: FailedRule) -> None:
        if NEEDS_HISTOGRAMS in failed.failure.message:
            return
        offset_ms = failed.failure.time_ms - self.simulation.scenario.start_ms
        times = "" if failed.count == 1 else f" ({failed.count} times)"
        self.failures.append(
            Failure(
                failed.rule.expression.source,
                failed.span,
                f"rule {failed.rule.name} at {format_duration(offset_ms)}{times}",
                f"cannot be evaluated: {failed.failure.message}",
            )
        )

    def alerts(self, check: AlertCheck) -> None:
        subject = f"alert {check.alertname} at {format_duration(check.eval_time_ms)}"
        if any(rule.name == check.alertname for rule in self.undecided):
            self.skipped.append(Skipped(self.suite.source, check.span, subject))
            return
        firing = self.simulation.firing_at(check.eval_time_ms, check.alertname)
        differences = compare_alerts(check.expected, firing)
        if not differences:
            return
        message = _told(len(check.expected), len(firing), differences, "alert", "firing")
        hint = self._alert_hint(check)
        self.failures.append(
            Failure(self.suite.source, check.span, subject, message, differences, hint)
        )

    def _alert_hint(self, check: AlertCheck) -> str:
        names = {
            runner.rule.name
            for runner in self.simulation.runners
            if isinstance(runner.rule, AlertingRule)
        }
        if check.alertname not in names:
            meant = difflib.get_close_matches(check.alertname, names, n=1)
            known = f"; did you mean '{meant[0]}'?" if meant else ""
            return f"no rule has 'alert: {check.alertname}'{known}"
        pending = self.simulation.pending_at(check.eval_time_ms, check.alertname)
        if pending and len(check.expected):
            alert, rule = pending[0]
            since_ms = alert.active_at_ms - self.simulation.scenario.start_ms
            return (
                f"{_count(len(pending), 'alert')} pending, the first since "
                f"{format_duration(since_ms)}; 'for' is {format_duration(rule.for_ms)}"
            )
        return ""

    def expression(self, check: ExpressionCheck) -> None:
        at = format_duration(check.eval_time_ms)
        subject = f"expression '{shorten(check.expression.text)}' at {at}"
        source = self.suite.source
        if any(map(reads_in(check.expression.tree).touches, self.undecided)):
            self.skipped.append(Skipped(source, check.span, subject))
            return
        try:
            got = _samples(self.simulation, check)
        except NeedsNativeHistograms:
            self.skipped.append(Skipped(source, check.span, subject))
            return
        except EvaluationError as error:
            span = place(check.expression.offsets, error.span or Span(0, 1))
            message = f"cannot be evaluated: {error}"
            self.failures.append(Failure(source, span, subject, message))
            return
        differences = compare_samples(check.expected, got, fuzzy=self.suite.fuzzy)
        if not differences:
            return
        message = _told(len(check.expected), len(got), differences, "sample", "there")
        hint = ""
        if any(math.isnan(sample.value) for sample in check.expected):
            hint = "NaN equals nothing, not even NaN; test 'x != x' instead"
        self.failures.append(Failure(source, check.span, subject, message, differences, hint))


def _told(
    expected: int, got: int, differences: Sequence[ItemDifference], noun: str, state: str
) -> str:
    """The numbers, where they tell something, else how many of the expected ones differ."""
    if expected == got:
        different = sum(one.expected is not None for one in differences)
        return (
            f"{different} of {_count(expected, noun)} {'differs' if different == 1 else 'differ'}"
        )
    return f"expected {_count(expected, noun)}, {got or 'none'} {state}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _samples(simulation: Simulation, check: ExpressionCheck) -> list[Sample]:
    """The elements of the check's expression at its time.

    Raises EvaluationError; NeedsNativeHistograms where one decides more than what is selected.
    """
    tree = check.expression.tree
    try:
        value = simulation.query(tree, check.eval_time_ms).value
    except NeedsNativeHistograms:
        selected = simulation.selected(tree, check.eval_time_ms)
        if selected is None:
            raise
        return [
            Sample(one.labels.to_dict(), float(one.values[-1]), _text_of(one)) for one in selected
        ]
    if isinstance(value, Scalar):
        return [Sample({}, float(value.values[0]))]
    if not isinstance(value, Vector):
        raise EvaluationError("the result is neither a vector nor a scalar")
    rows = np.flatnonzero(value.present[:, 0]).tolist()
    return [Sample(value.labels[row].to_dict(), float(value.values[row, 0])) for row in rows]


def _text_of(series: Series) -> str:
    """The newest sample's text if it is a native histogram, else ""."""
    return "" if series.histograms is None else series.histograms[-1] or ""
