"""A unit-test file as data, every part with its place. Times are milliseconds.

The format is promtool's: https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.ruletest.notation import Sequence
    from rules.model import Expression
    from rules.source import Source, Span

DEFAULT_INTERVAL_MS = 60_000


@dataclass(frozen=True, slots=True)
class InputSeries:
    """One series; sample i is at the scenario's start + i times its interval.

    `starts`: for each sample since when it counts, less its own time, in milliseconds; None where
    that is unknown; () where it is for all.
    """

    labels: Labels
    sequence: Sequence
    span: Span
    starts: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpectedAlert:
    """A firing alert. `labels` include `alertname`; empty values are kept as written."""

    labels: dict[str, str]
    annotations: dict[str, str]
    span: Span


@dataclass(frozen=True, slots=True)
class AlertCheck:
    """Which alerts of a name must be firing, `eval_time_ms` after the start."""

    span: Span
    eval_time_ms: int
    alertname: str
    expected: tuple[ExpectedAlert, ...]


@dataclass(frozen=True, slots=True)
class ExpectedSample:
    """One element of a result: a value, or the text of a native histogram."""

    labels: dict[str, str]
    value: float
    span: Span
    histogram: str = ""


@dataclass(frozen=True, slots=True)
class ExpressionCheck:
    """What an expression must give, `eval_time_ms` after the start."""

    span: Span
    eval_time_ms: int
    expression: Expression
    expected: tuple[ExpectedSample, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Series, and what must be true of the rules over them: one item of `tests`.

    `until_ms`: evaluate up to there, also where no check is so late.
    """

    name: str
    number: int
    span: Span
    interval_ms: int
    start_ms: int = 0
    series: tuple[InputSeries, ...] = ()
    alert_checks: tuple[AlertCheck, ...] = ()
    expression_checks: tuple[ExpressionCheck, ...] = ()
    external_labels: dict[str, str] = field(default_factory=dict)
    external_url: str = ""
    until_ms: int = 0

    @property
    def title(self) -> str:
        """Its name; one without is numbered, as promtool numbers it."""
        return self.name or f"unnamed#{self.number}"

    @property
    def duration_ms(self) -> int:
        """From the start to the last check."""
        times = [self.until_ms]
        times += [check.eval_time_ms for check in self.alert_checks]
        times += [check.eval_time_ms for check in self.expression_checks]
        return max(times)


@dataclass(frozen=True, slots=True)
class RuleFilePattern:
    """An item of `rule_files`: a path or glob, relative to the test file."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Suite:
    """One unit-test file. `group_order`: names of groups, those to be evaluated first."""

    source: Source = field(repr=False, compare=False)
    rule_files: tuple[RuleFilePattern, ...]
    evaluation_interval_ms: int
    group_order: tuple[str, ...]
    scenarios: tuple[Scenario, ...]
    fuzzy: bool = False

    @property
    def path(self) -> str:
        """The file's name as given."""
        return self.source.name
