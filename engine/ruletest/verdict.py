"""What running unit tests found, as data; `reports` turns it into text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from engine.promql.errors import NEEDS_HISTOGRAMS
from rules.slotted import dataclass

if TYPE_CHECKING:
    from engine.ruletest.model import Scenario
    from rules.source import Problem, Source, Span


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One label, annotation, value or other part. None: it is not there on that side."""

    kind: Literal["label", "annotation", "value", "part"]
    name: str
    expected: str | None
    got: str | None


@dataclass(frozen=True, slots=True)
class ItemDifference:
    """An alert or sample that is missing (`got` None), too much (`expected` None) or different.

    `fields` names what differs where both are there.
    """

    expected: str | None
    got: str | None
    fields: tuple[FieldDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """A check that failed, at its place. `subject`: what was checked, and when."""

    source: Source
    span: Span
    subject: str
    message: str
    differences: tuple[ItemDifference, ...] = ()
    hint: str = ""

    @property
    def place(self) -> str:
        """`file:line:column`."""
        line, column = self.source.position(self.span.start)
        return f"{self.source.name}:{line}:{column}"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A check that cannot be decided, and why."""

    source: Source
    span: Span
    subject: str
    reason: str = NEEDS_HISTOGRAMS

    @property
    def place(self) -> str:
        """`file:line:column`."""
        line, column = self.source.position(self.span.start)
        return f"{self.source.name}:{line}:{column}"


@dataclass(frozen=True, slots=True)
class ScenarioVerdict:
    """One test. `line`: where it stands. `checks`: how many ran, failed ones included."""

    scenario: Scenario
    line: int
    checks: int = 0
    failures: tuple[Failure, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SuiteVerdict:
    """One file. `problems`: why it could not run; then there are no scenarios."""

    path: str
    scenarios: tuple[ScenarioVerdict, ...] = ()
    problems: tuple[Problem | str, ...] = ()

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Those of all tests."""
        return tuple(failure for one in self.scenarios for failure in one.failures)

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Those of all tests."""
        return tuple(skipped for one in self.scenarios for skipped in one.skipped)

    @property
    def checks(self) -> int:
        """How many checks ran."""
        return sum(one.checks for one in self.scenarios)

    @property
    def status(self) -> Literal["passed", "failed", "error"]:
        """`error`: it could not run."""
        if self.problems:
            return "error"
        return "failed" if self.failures else "passed"
