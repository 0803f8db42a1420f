"""The evaluator: one thread that runs due rule groups and commits what came of it.

Per group and time, in this order: evaluate, commit alert state and outbox in one transaction, then
record. A kill between any two of them loses no message: either the transaction is there, with the
message in the outbox, or the evaluation never happened. What it wrote is in the transaction too,
so that the next start can complete the recording.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from engine.alerts.alert import AlertState
from engine.pipeline.resume import write_evaluation
from engine.pipeline.schedule import Schedule
from engine.pipeline.stage import ignore_fault, start_stage
from engine.rulegroup.common_parts import CommonParts
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.flush import Flush
    from engine.pipeline.schedule import Slot
    from engine.pipeline.stage import OnFault
    from engine.protocols import Delivery
    from engine.recording import Recorder, Unrecorded
    from engine.rulegroup.runner import GroupEvaluation, GroupRunner
    from engine.state import StateDb
    from engine.store import Store
    from engine.telemetry import Telemetry

LOG = logging.getLogger(__name__)
# How often to look whether a group between two flushes is due.
TICK_SECONDS = 0.5


@dataclass(slots=True)
class Evaluator:
    """Runs `runners` (file order) when their time has come and their flush is in the store."""

    runners: Sequence[GroupRunner]
    store: Store
    state: StateDb
    recording: Recorder | Unrecorded
    delivery: Delivery
    telemetry: Telemetry
    flush_interval_ms: int
    start_ms: int
    clock: Callable[[], float] = time.time
    on_fault: OnFault = ignore_fault
    # Told of each time that is evaluated, before it is.
    before: Callable[[int], object] = lambda _: None
    # Held while groups are evaluated; taken before _changed, never after it.
    evaluating: threading.RLock = field(default_factory=threading.RLock)
    _schedule: Schedule | None = None
    _common: CommonParts | None = None
    _flushed_ms: int = 0
    _stopped: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.arrange(self.runners, self.start_ms)

    def arrange(self, runners: Sequence[GroupRunner], start_ms: int) -> None:
        """Run these groups from now on, the first slots after `start_ms`.

        A group that runs already goes on where it is: a time that waits for its flush is kept.
        """
        with self.evaluating, self._changed:
            reached = self._reached()
            after = tuple(reached.get(_place(runner)) for runner in runners)
            self.runners = runners
            self._common = CommonParts(rule for runner in runners for rule in runner.group.rules)
            for runner in runners:
                runner.share(self._common)
            intervals = tuple(runner.interval_ms for runner in runners)
            self._schedule = Schedule(intervals, self.flush_interval_ms, start_ms, after)
            for runner in runners:
                name = runner.group.name
                self.telemetry.add("stallwatch_evaluations_total", 0, group=name)
                for rule in runner.group.rules:
                    self.telemetry.add(
                        "stallwatch_rule_failures_total", 0, group=name, rule=rule.name
                    )

    def start(self) -> None:
        """Begin."""
        self._thread = start_stage("evaluator", self._run, self.on_fault)

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """Finish the evaluation under way, then end."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    @property
    def flushed_ms(self) -> int:
        """The time of the last flush that was told of, 0 before the first."""
        return self._flushed_ms

    def flushed(self, flush: Flush) -> None:
        """A flush is in the store: a sink of the flusher."""
        with self._changed:
            self._flushed_ms = flush.timestamp_ms
            self._changed.notify_all()

    def _run(self) -> None:
        while not self._stopped:
            flushed_ms = self._flushed_ms
            if not self.turn():
                with self._changed:
                    # What came since the look around must not wait for the next tick.
                    if self._flushed_ms == flushed_ms:
                        self._changed.wait(TICK_SECONDS)

    def turn(self) -> bool:
        """Evaluate every group that is due; False when none was."""
        with self.evaluating:
            with self._changed:
                slots = self._ready()
            for slot in slots:
                self.before(slot.time_ms)
                self._evaluate_guarded(self.runners[slot.group], slot)
            if slots:
                self._count_alerts(self.runners)
                if self._common is not None:
                    # What happens between two turns is not followed.
                    self._common.clear()
            return bool(slots)

    def _ready(self) -> list[Slot]:
        if self._stopped or self._schedule is None:
            return []
        return self._schedule.ready(int(self.clock() * 1000), self._flushed_ms)

    def _reached(self) -> dict[tuple[str, str, int], int]:
        """Per group that runs the last time that needs no evaluation any more."""
        if self._schedule is None:
            return {}
        return {
            _place(runner): self._schedule.reached_ms(index)
            for index, runner in enumerate(self.runners)
        }

    def _evaluate_guarded(self, runner: GroupRunner, slot: Slot) -> None:
        """A fault of ours makes the slot one that was skipped: nothing of it has happened."""
        before = runner.state
        try:
            self.evaluate(runner, slot)
        except Exception:
            LOG.exception("group %s: the evaluation failed", runner.group.name)
            runner.restore(before)
            self.telemetry.add("stallwatch_stage_faults_total", stage="evaluator")
            self.skip(runner, range(slot.time_ms, slot.time_ms + 1), "fault")

    def evaluate(self, runner: GroupRunner, slot: Slot) -> GroupEvaluation:
        """One group at one time: evaluate, commit, record."""
        started = time.monotonic()
        file, name = runner.group.file, runner.group.name
        if slot.skipped:
            self.skip(runner, slot.skipped, "overrun")
        result = runner.evaluate(slot.time_ms, self.store, self.store)
        self.state.commit(
            [runner.state], result.transitions, self.delivery.enqueue, samples=result.samples
        )
        write_evaluation(self.recording, file, name, slot.time_ms, result.samples)
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

    def skip(self, runner: GroupRunner, times_ms: range, reason: str) -> None:
        """Log times at which a group was due and not evaluated."""
        file, name = runner.group.file, runner.group.name
        run = (times_ms[0], times_ms[-1], times_ms.step)
        self.recording.log_skipped(file, name, run, run[1], reason)
        count = float(len(times_ms))
        self.telemetry.add("stallwatch_evaluations_skipped_total", count, group=name, reason=reason)

    def _count_alerts(self, runners: Sequence[GroupRunner]) -> None:
        counts = {AlertState.PENDING: 0, AlertState.FIRING: 0}
        for runner in runners:
            for status in runner.statuses:
                for alert in status.alerts:
                    if alert.state in counts:
                        counts[alert.state] += 1
        for state, count in counts.items():
            self.telemetry.set("stallwatch_alerts", count, state=state.value)


def _place(runner: GroupRunner) -> tuple[str, str, int]:
    """What a running group is known by on a reload."""
    return runner.group.file, runner.group.name, runner.interval_ms
