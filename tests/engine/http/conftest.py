"""A server over sources that hold what a test puts in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.alerts.alert import Alert, AlertState, Suppression
from engine.baselines.folds import Folds
from engine.explanation.data import Data
from engine.explanation.question import Grounds
from engine.http.server import HttpServer, serve
from engine.http.sources import GroupStatus
from engine.labels import Labels
from engine.promql.context import Options
from engine.promql.value import Axis, Result, Scalar, Vector
from engine.readings import ProbeStatus
from engine.rulegroup.runner import RuleStatus
from rules.model import AlertingRule, Expression, RecordingRule
from rules.promql.ast import NumberLiteral
from rules.source import Problem, ProblemsError, Source, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.http.message import Handler
    from engine.series import Queryable, Series
    from engine.telemetry import OwnSample
    from rules.promql.ast import Matcher

SPAN = Span(0, 1)
ALERT = Alert(
    labels=Labels.of(alertname="TcpRetransmitSpike", task_id="torchrun:job42", tier="1"),
    annotations={"summary": "many"},
    state=AlertState.FIRING,
    value=1.5,
    active_at_ms=1_700_000_000_000,
    fired_at_ms=1_700_000_060_000,
    evidence=({"rank": "0", "pid": 7, "comm": "python", "dst": "10.0.0.2", "retransmits": 12},),
)


def expression(text: str) -> Expression:
    return Expression(
        text, NumberLiteral(SPAN, 1.0), Source("a.yaml", text), tuple(range(len(text) + 1))
    )


@dataclass
class FakeSources:
    """`query` answers with `answer`, called with the expression and the axis."""

    answer: Callable[[str, Axis], Result]
    why_unready: str = ""
    own: list[OwnSample] = field(default_factory=list)
    asked: tuple[Sequence[Matcher], int, int] | None = None
    series: list[Series] = field(default_factory=list)
    active: list[Alert] = field(default_factory=lambda: [ALERT])
    suppressed: Suppression = field(default_factory=Suppression)
    handlers: dict[str, Handler] = field(default_factory=dict)

    @property
    def queryable(self) -> Queryable:
        return self

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        self.asked = (matchers, start_ms, end_ms)
        return self.series

    def query(self, text: str, axis: Axis) -> Result:
        return self.answer(text, axis)

    def alerts(self) -> Sequence[Alert]:
        return self.active

    def suppression(self, alert: Alert) -> Suppression:
        return self.suppressed

    def mounted(self) -> dict[str, Handler]:
        return self.handlers

    def rule_groups(self) -> Sequence[GroupStatus]:
        alerting = AlertingRule(
            "TcpRetransmitSpike",
            expression("x > 1"),
            60_000,
            0,
            {"tier": "1"},
            {"summary": "{{ 1 }}"},
            SPAN,
        )
        recording = RecordingRule("job:x:sum", expression("sum(x)"), {}, SPAN)
        return (
            GroupStatus(
                "comm",
                "comm.yaml",
                10_000,
                0,
                (
                    RuleStatus(alerting, "ok", "", 1_700_000_060_000, 0.25, tuple(self.active)),
                    RuleStatus(recording, "err", "many-to-many matching not allowed"),
                ),
                0.5,
                1_700_000_060_000,
            ),
        )

    def grounds(self) -> Grounds:
        return Grounds((), Data(self, Options(), Folds()))

    def samples(self) -> Sequence[OwnSample]:
        return self.own

    def probe_statuses(self) -> Sequence[ProbeStatus]:
        return [ProbeStatus("gpu", "off", "library_absent", "no libnvidia-ml", "install a driver")]

    def unready(self) -> str:
        return self.why_unready


def answer(text: str, axis: Axis) -> Result:
    """Knows two expressions; everything else does not parse."""
    steps = len(axis.times_ms)
    if text == "up":
        labels = (Labels.of(__name__="up", node="a"), Labels.of(__name__="up", node="b"))
        return Result(
            Vector(labels, np.ones((2, steps)), np.ones((2, steps), dtype=bool)), ("w",), ("i",)
        )
    if text == "2":
        return Result(Scalar(np.full(steps, 2.0)))
    source = Source("<expression>", text)
    raise ProblemsError([Problem(source, Span(len(text), len(text)), "unexpected end of input")])


@pytest.fixture
def sources() -> FakeSources:
    return FakeSources(answer)


@pytest.fixture
def server(sources: FakeSources) -> Iterator[HttpServer]:
    running = serve("127.0.0.1:0", sources)
    yield running
    running.stop()
