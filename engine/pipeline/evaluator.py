"""The evaluator: one thread that runs due rule groups and commits what came of it.

Per group and time, in this order: evaluate, commit alert state and outbox in one transaction, then
record. A kill between any two of them loses no message: either the transaction is there, with the
message in the outbox, or the evaluation never happened.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from engine.alerts.alert import AlertState
from engine.pipeline.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.flush import Flush
    from engine.labels import Labels
    from engine.pipeline.schedule import Slot
    from engine.protocols import Delivery
    from engine.rulegroup.runner import GroupEvaluation, GroupRunner
    from engine.series import Float64Array
    from engine.state import StateDb
    from engine.store import Store
    from engine.telemetry import Telemetry

LOG = logging.getLogger(__name__)
# How often to look whether a group between two flushes is due.
TICK_SECONDS = 0.5


class EvaluationLog(Protocol):
    """The recording, as far as rules write to it."""

    def write_samples(
        self, timestamp_ms: int, labels: Sequence[Labels], values: Float64Array
    ) -> object:
        """Samples that rules wrote at one time."""
        ...

    def log_evaluated(self, file: str, group: str, time_ms: int) -> object:
        """A group was evaluated."""
        ...

    def log_skipped(self, file: str, group: str, time_ms: int, reason: str) -> object:
        """A group was due and not evaluated."""
        ...


@dataclass(slots=True)
class Evaluator:
    """Runs `runners` (file order) when their time has come and their flush is in the store."""

    runners: Sequence[GroupRunner]
    store: Store
    state: StateDb
    recording: EvaluationLog
    delivery: Delivery
    telemetry: Telemetry
    flush_interval_ms: int
    start_ms: int
    clock: Callable[[], float] = time.time
    _schedule: Schedule = field(init=False)
    _flushed_ms: int = 0
    _stopped: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.arrange(self.runners, self.start_ms)

    def arrange(self, runners: Sequence[GroupRunner], start_ms: int) -> None:
        """Run these groups from now on, the first slots after `start_ms`."""
        with self._changed:
            self.runners = runners
            intervals = tuple(runner.interval_ms for runner in runners)
            self._schedule = Schedule(intervals, self.flush_interval_ms, start_ms)
            for runner in runners:
                name = runner.group.name
                self.telemetry.add("stallwatch_evaluations_total", 0, group=name)
                for rule in runner.group.rules:
                    self.telemetry.add(
                        "stallwatch_rule_failures_total", 0, group=name, rule=rule.name
                    )

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="evaluator", daemon=True)
        self._thread.start()

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """Finish the evaluation under way, then end."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def flushed(self, flush: Flush) -> None:
        """A flush is in the store: a sink of the flusher."""
        with self._changed:
            self._flushed_ms = flush.timestamp_ms
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                slots = self._schedule.ready(int(self.clock() * 1000), self._flushed_ms)
                runners = self.runners
                if not slots:
                    self._changed.wait(TICK_SECONDS)
                    continue
            for slot in slots:
                self.evaluate(runners[slot.group], slot)
            self._count_alerts(runners)

    def evaluate(self, runner: GroupRunner, slot: Slot) -> GroupEvaluation:
        """One group at one time: evaluate, commit, record."""
        started = time.monotonic()
        file, name = runner.group.file, runner.group.name
        for skipped_ms in slot.skipped:
            self.skip(runner, skipped_ms, "overrun")
        result = runner.evaluate(slot.time_ms, self.store, self.store)
        self.state.commit([runner.state], result.transitions, self.delivery.enqueue)
        self._record(result)
        self.recording.log_evaluated(file, name, slot.time_ms)
        if result.transitions:
            self.delivery.wake()
        for failure in result.failures:
            LOG.warning("%s: group %s: rule %s: %s", file, name, failure.rule, failure.message)
            self.telemetry.add("stallwatch_rule_failures_total", group=name, rule=failure.rule)
        self.telemetry.add("stallwatch_evaluations_total", group=name)
        self.telemetry.set(
            "stallwatch_template_failures_total", runner.template_errors_total, group=name
        )
        self.telemetry.set("stallwatch_evaluation_seconds", time.monotonic() - started, group=name)
        return result

    def skip(self, runner: GroupRunner, time_ms: int, reason: str) -> None:
        """Log a time at which a group was due and not evaluated."""
        name = runner.group.name
        self.recording.log_skipped(runner.group.file, name, time_ms, reason)
        self.telemetry.add("stallwatch_evaluations_skipped_total", group=name, reason=reason)

    def _record(self, result: GroupEvaluation) -> None:
        """Samples of one evaluation can have two times: removed rules end without the offset."""
        by_time: dict[int, list[tuple[Labels, float]]] = {}
        for sample in result.samples:
            by_time.setdefault(sample.timestamp_ms, []).append((sample.labels, sample.value))
        for timestamp_ms, samples in by_time.items():
            values = np.array([value for _, value in samples], dtype=np.float64)
            self.recording.write_samples(timestamp_ms, [own for own, _ in samples], values)

    def _count_alerts(self, runners: Sequence[GroupRunner]) -> None:
        counts = {AlertState.PENDING: 0, AlertState.FIRING: 0}
        for runner in runners:
            for status in runner.statuses:
                for alert in status.alerts:
                    if alert.state in counts:
                        counts[alert.state] += 1
        for state, count in counts.items():
            self.telemetry.set("stallwatch_alerts", count, state=state.value)
