"""What the HTTP server shows: the live pipeline implements `Sources`, and so do tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.alerts.alert import Alert, Suppression
    from engine.explanation.question import Grounds
    from engine.http.message import Handler
    from engine.promql.value import Axis, Result
    from engine.readings import ProbeStatus
    from engine.rulegroup.runner import RuleStatus
    from engine.series import Queryable
    from engine.telemetry import OwnSample


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A rule group; `interval_ms` is the interval in force, the global one resolved.

    The alerts of `rules` are those pending or firing now.
    """

    name: str
    file: str
    interval_ms: int
    limit: int
    rules: tuple[RuleStatus, ...]
    evaluation_seconds: float = 0.0
    last_evaluation_ms: int | None = None


class Sources(Protocol):
    """A view of the running agent. Called from several threads at once; must not block long."""

    @property
    def queryable(self) -> Queryable:
        """The series, for `/api/v1/series` and `/api/v1/labels`."""
        ...

    def query(self, expression: str, axis: Axis) -> Result:
        """Parse and evaluate over the store with the agent's options.

        Raises ProblemsError for what does not parse, another StallwatchError (EvaluationError)
        for what cannot be evaluated.
        """
        ...

    def alerts(self) -> Sequence[Alert]:
        """Pending and firing alerts of all rules."""
        ...

    def suppression(self, alert: Alert) -> Suppression:
        """What keeps notifications of an alert back now."""
        ...

    def mounted(self) -> Mapping[str, Handler]:
        """What else answers, by the beginning of its paths."""
        ...

    def rule_groups(self) -> Sequence[GroupStatus]:
        """All groups in file order."""
        ...

    def grounds(self) -> Grounds:
        """What alerts are explained from."""
        ...

    def samples(self) -> Sequence[OwnSample]:
        """The agent's own metrics now."""
        ...

    def probe_statuses(self) -> Sequence[ProbeStatus]:
        """How each probe stands, with what was seen and the mend."""
        ...

    def unready(self) -> str:
        """Why the agent is not ready yet; "" when it is."""
        ...
