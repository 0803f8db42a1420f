"""Rules, groups and data for tests of evaluation, without files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.alerts.alert import AlertState
from engine.dataset import MemoryDataset
from engine.flush import Flush
from engine.rulegroup.common_parts import CommonParts
from engine.rulegroup.options import GroupOptions
from engine.rulegroup.runner import GroupRunner
from engine.series import STALE_NAN, Series, stale_mask
from engine.store import Store
from rules.model import AlertingRule, Expression, Group, RecordingRule, RuleFile
from rules.promql.parser import parse
from rules.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from engine.alerts.alert import Alert
    from engine.flush import TaskEvent
    from engine.labels import Labels
    from engine.rulegroup.runner import GroupEvaluation
    from rules.model import Rule

    RunLive = Callable[..., "Live"]

SECOND = 1000
NOWHERE = Span(0, 0)


def _expression(text: str) -> Expression:
    return Expression(text, parse(text), Source("rules.yaml", text), tuple(range(len(text) + 1)))


@dataclass(frozen=True)
class Rules:
    """Builds rules; durations are in seconds."""

    def alert(
        self,
        name: str,
        expr: str,
        for_: float = 0,
        keep_firing_for: float = 0,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        resolve: str | None = None,
    ) -> AlertingRule:
        return AlertingRule(
            name,
            _expression(expr),
            int(for_ * SECOND),
            int(keep_firing_for * SECOND),
            dict(labels or {}),
            dict(annotations or {}),
            NOWHERE,
            None if resolve is None else _expression(resolve),
        )

    def record(
        self, name: str, expr: str, labels: Mapping[str, str] | None = None
    ) -> RecordingRule:
        return RecordingRule(name, _expression(expr), dict(labels or {}), NOWHERE)

    def group(
        self,
        *rules: Rule,
        name: str = "group",
        file: str = "rules.yaml",
        interval: float | None = None,
        query_offset: float | None = None,
        limit: int = 0,
    ) -> Group:
        return Group(
            name,
            file,
            None if interval is None else int(interval * SECOND),
            None if query_offset is None else int(query_offset * SECOND),
            limit,
            {},
            rules,
            NOWHERE,
        )

    def file(self, *groups: Group, path: str = "rules.yaml") -> RuleFile:
        return RuleFile(path, groups, Source(path, ""))


@dataclass
class Data:
    """Samples every ten seconds, as flushes (live) and as a dataset (replay).

    `add(labels, from second, values)`: None leaves a sample out, "stale" is the marker.
    """

    samples: dict[Labels, dict[int, float]] = field(default_factory=dict)
    events: list[TaskEvent] = field(default_factory=list)

    def add(
        self, labels: Labels, start: int, values: Sequence[float | str | None], step: int = 10
    ) -> Data:
        column = self.samples.setdefault(labels, {})
        for index, value in enumerate(values):
            if value is not None:
                time_ms = (start + index * step) * SECOND
                column[time_ms] = STALE_NAN if isinstance(value, str) else value
        return self

    def flushes(self) -> Iterator[Flush]:
        times = {time for column in self.samples.values() for time in column}
        times |= {event.flush_ms for event in self.events}
        for time_ms in sorted(times):
            there = [own for own in sorted(self.samples) if time_ms in self.samples[own]]
            values = np.array([self.samples[own][time_ms] for own in there], dtype=np.float64)
            events = tuple(event for event in self.events if event.flush_ms == time_ms)
            yield Flush(time_ms, tuple(there), values, events)

    def dataset(self) -> MemoryDataset:
        return MemoryDataset(
            tuple(
                Series(
                    own,
                    np.array(sorted(self.samples[own]), dtype=np.int64),
                    np.array(
                        [value for _, value in sorted(self.samples[own].items())], dtype=np.float64
                    ),
                )
                for own in sorted(self.samples)
            ),
            recorded_events=tuple(self.events),
        )


@pytest.fixture(scope="session")
def rules() -> Rules:
    return Rules()


@pytest.fixture
def data() -> Data:
    return Data()


@pytest.fixture(scope="session")
def make_data() -> Callable[[], Data]:
    return Data


@dataclass
class Live:
    """What a live agent did: evaluations in order, and every alert that fired as it ended."""

    runners: list[GroupRunner]
    store: Store
    evaluations: list[GroupEvaluation]

    @property
    def transitions(self) -> list[Alert]:
        return [alert for done in self.evaluations for alert in done.transitions]

    @property
    def alerts(self) -> list[Alert]:
        over = [own for own in self.transitions if own.state is AlertState.RESOLVED]
        firing = [
            alert
            for runner in self.runners
            for status in runner.statuses
            for alert in status.alerts
            if alert.state is AlertState.FIRING
        ]
        return sorted(over + firing, key=lambda own: (own.fired_at_ms or 0, own.labels))

    def written(self) -> dict[str, list[tuple[int, float | str]]]:
        """Every sample that rules wrote: (second, value or "stale") by series."""
        found: dict[str, list[tuple[int, float | str]]] = {}
        for done in self.evaluations:
            for sample in done.samples:
                stale = stale_mask(np.array([sample.value]))[0]
                value = "stale" if stale else sample.value
                found.setdefault(str(sample.labels), []).append(
                    (sample.timestamp_ms // SECOND, value)
                )
        return found


@pytest.fixture(scope="session")
def run_live() -> RunLive:
    """Evaluate groups one time after another over a store, as the agent does."""

    def run(
        groups: Sequence[Group],
        data: Data,
        end: int,
        options: GroupOptions | None = None,
        start: int = 0,
        store: Store | None = None,
        *,
        share: bool = False,
    ) -> Live:
        options = options or GroupOptions()
        live = Live([GroupRunner(group, options) for group in groups], store or Store(), [])
        if share:
            common = CommonParts(rule for group in groups for rule in group.rules)
            for runner in live.runners:
                runner.share(common)
        flushes = {flush.timestamp_ms: flush for flush in data.flushes()}
        for time_ms in range(start * SECOND, end * SECOND + 1, SECOND):
            if time_ms in flushes:
                live.store.append(flushes[time_ms])
            for runner in live.runners:
                if runner.is_due(time_ms):
                    live.evaluations.append(runner.evaluate(time_ms, live.store, live.store))
        return live

    return run
