"""Runs files of delivery tests: load, evaluate, deliver in simulated time, compare.

The dispatcher is the live one; see `notifiers.simulation`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.alerts.alert import Alert, AlertState
from engine.config.loader import load_alertmanager, load_config
from engine.ruletest.running import load_groups
from engine.ruletest.simulation import MOST_EVALUATIONS, evaluations
from engine.ruletest.simulation import simulate as evaluate
from engine.ruletest.verdict import Failure, ScenarioVerdict, SuiteVerdict
from notifiers.deliverytest.comparison import compare
from notifiers.deliverytest.loader import load_suite
from notifiers.deliverytest.outcome import Outcome
from notifiers.silences.silence import LATEST_MS, Silence
from notifiers.simulation import Setup, simulate, transitions
from rules.decoding import UnreadableError
from rules.durations import format_duration
from rules.errors import StallwatchError
from rules.fields import did_you_mean
from rules.slotted import dataclass, replace
from rules.source import Problem, ProblemsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from engine.config.model import Config
    from engine.ruletest.model import Scenario
    from engine.ruletest.running import RunOptions
    from engine.ruletest.simulation import FailedRule
    from notifiers.deliverytest.model import (
        DeliveryScenario,
        DeliverySuite,
        StatedAlert,
        StatedSilence,
    )
    from rules.model import Group


# A year of groups that speak each minute; more than that is a typing error.
MOST_TICKS = 600_000


def run_file(path: str | Path, options: RunOptions) -> SuiteVerdict:
    """Run one file. What keeps it from running is in the verdict, not raised."""
    try:
        suite = load_suite(path, options.run)
        bench = _Bench.of(suite, options)
        scenarios = tuple(bench.run(one) for one in suite.scenarios)
        return SuiteVerdict(str(path), scenarios)
    except ProblemsError as error:
        return SuiteVerdict(str(path), problems=error.problems)
    except StallwatchError as error:
        return SuiteVerdict(str(path), problems=(str(error),))


@dataclass(frozen=True, slots=True)
class _Bench:
    """What all tests of a file share."""

    suite: DeliverySuite
    options: RunOptions
    config: Config
    setup: Setup
    groups: tuple[Group, ...]

    @classmethod
    def of(cls, suite: DeliverySuite, options: RunOptions) -> _Bench:
        """Raises ProblemsError, UnreadableError for the files that it names."""
        load = load_alertmanager if suite.is_alertmanagers else load_config
        try:
            config = load(suite.config)
        except UnreadableError as error:
            problem = Problem(suite.source, suite.config_span, str(error), code="config")
            raise ProblemsError([problem]) from None
        found = cls(
            suite,
            options,
            config,
            Setup.of(config),
            load_groups(suite.rules, options),
        )
        problems = list(found._unknown_receivers())
        if problems:
            raise ProblemsError(problems)
        return found

    def _unknown_receivers(self) -> Iterator[Problem]:
        names = [receiver.name for receiver in self.config.receivers]
        for test in self.suite.scenarios:
            for named in (*test.receivers, *(one.named for one in test.messages)):
                if named.value not in names:
                    hint = did_you_mean(named.value, names)
                    message = f"the configuration has no receiver '{named.value}'"
                    yield Problem(self.suite.source, named.span, message, hint, "receiver")

    def run(self, test: DeliveryScenario) -> ScenarioVerdict:
        """Raises ProblemsError for more evaluations than anybody means."""
        started = time.perf_counter()
        until_ms = self._until_ms(test)
        self._refuse_too_many_ticks(test, until_ms)
        alerts = [_stated(test, one, until_ms) for one in test.alerts if one.starts_ms <= until_ms]
        scenario = replace(test.rules, until_ms=until_ms)
        failures: list[Failure] = []
        warnings: tuple[str, ...] = ()
        if self.groups:
            interval_ms = self.suite.rules.evaluation_interval_ms
            self._refuse_too_long(scenario, interval_ms)
            evaluated = evaluate(
                scenario,
                self.groups,
                interval_ms,
                start_timestamps=self.options.start_timestamps,
                keeps_fired=True,
            )
            alerts += evaluated.fired or ()
            warnings = tuple(evaluated.warnings)
            failed = evaluated.failures.values()
            failures += [_rule_failed(one, scenario.start_ms) for one in failed]
        outcome = self._delivered(test, alerts, until_ms)
        failures += compare(self.suite.source, test, outcome)
        return ScenarioVerdict(
            scenario,
            line=self.suite.source.position(test.rules.span.start)[0],
            checks=len(test.messages) + 1,
            failures=tuple(sorted(failures, key=lambda one: one.span.start)),
            warnings=warnings,
            seconds=time.perf_counter() - started,
        )

    def _until_ms(self, test: DeliveryScenario) -> int:
        """Without a word of the test: until each group could have told of the last thing."""
        if test.until_ms is not None:
            return test.until_ms
        routes = self.setup.plan.root.walk()
        return test.latest_ms + max(one.group_wait_ms + one.group_interval_ms for one in routes)

    def _refuse_too_many_ticks(self, test: DeliveryScenario, until_ms: int) -> None:
        shortest_ms = min(route.group_interval_ms for route in self.setup.plan.root.walk())
        if until_ms > MOST_TICKS * shortest_ms:
            shortest = format_duration(shortest_ms)
            message = (
                f"a group speaks every {shortest}: more than {MOST_TICKS:,} times in this test"
            )
            problem = Problem(
                self.suite.source, test.rules.span, message, "an earlier 'until'", "time"
            )
            raise ProblemsError([problem])

    def _refuse_too_long(self, scenario: Scenario, interval_ms: int) -> None:
        if evaluations(scenario, interval_ms) > MOST_EVALUATIONS:
            message = f"more than {MOST_EVALUATIONS:,} evaluations up to the test's end"
            hint = "a longer evaluation_interval, or an earlier 'until'"
            problem = Problem(self.suite.source, scenario.span, message, hint, "time")
            raise ProblemsError([problem])

    def _delivered(self, test: DeliveryScenario, alerts: Sequence[Alert], until_ms: int) -> Outcome:
        setup, start_ms = self.setup, test.rules.start_ms
        outcome = Outcome(setup, start_ms, alerts)
        silences = [_silence(test, one) for one in test.silences]
        dispatcher = setup.dispatcher(silences, outcome.watch)
        outcome.take(simulate(dispatcher, transitions(alerts), start_ms + until_ms))
        budgets = dispatcher.limiter.budgets
        outcome.limited = {key: own.held_total for key, own in budgets.items() if own.held_total}
        return outcome


def _stated(test: DeliveryScenario, one: StatedAlert, until_ms: int) -> Alert:
    start_ms = test.rules.start_ms
    # What ends after the test fires on in it.
    over = one.ends_ms is not None and one.ends_ms <= until_ms
    return Alert(
        labels=one.labels,
        annotations=dict(one.annotations),
        state=AlertState.RESOLVED if over else AlertState.FIRING,
        value=1.0,
        active_at_ms=start_ms + one.starts_ms,
        fired_at_ms=start_ms + one.starts_ms,
        resolved_at_ms=start_ms + one.ends_ms if over and one.ends_ms is not None else None,
    )


def _silence(test: DeliveryScenario, one: StatedSilence) -> Silence:
    """Its id is its place in the file, by which a hint finds it again."""
    start_ms = test.rules.start_ms
    ends_ms = LATEST_MS if one.ends_ms is None else start_ms + one.ends_ms
    return Silence(str(one.span.start), one.matchers, start_ms + one.starts_ms, ends_ms)


def _rule_failed(failed: FailedRule, start_ms: int) -> Failure:
    at = format_duration(failed.failure.time_ms - start_ms)
    times = "" if failed.count == 1 else f" ({failed.count} times)"
    message = f"cannot be evaluated: {failed.failure.message}"
    subject = f"rule {failed.rule.name} at {at}{times}"
    return Failure(failed.rule.expression.source, failed.span, subject, message)
