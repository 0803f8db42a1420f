"""The agent: builds the stages for a configuration, starts and stops them in order.

    collector ──▶ queue ──▶ flusher ──▶ live window, recording ──▶ evaluator ──▶ outbox

Each stage is a thread of its own; a slow one delays its successors and nobody else.
"""

from __future__ import annotations

import importlib.metadata
import logging
import time
from typing import TYPE_CHECKING

from engine.aggregate.aggregator import Aggregator
from engine.aggregate.fold import Fold
from engine.aggregate.identity import TaskDirectory
from engine.aggregate.queue import ReadingQueue
from engine.dataset.errors import DataError
from engine.labels import Labels
from engine.pipeline import resume
from engine.pipeline.baselines import Baselines
from engine.pipeline.collector import Collector
from engine.pipeline.evaluator import Evaluator
from engine.pipeline.flusher import Flusher
from engine.pipeline.window import live_window_ms
from engine.recording import (
    FolderLockedError,
    Keep,
    Recorder,
    RecordingLog,
    Retention,
    Unrecorded,
    seal_apart,
)
from engine.rulegroup.options import GroupOptions, baseline_settings
from engine.rulegroup.runner import GroupRunner, retire
from engine.rulegroup.state import after_downtime
from engine.state import StateDb, StateLock
from engine.store import Store
from engine.telemetry import OwnSample, Telemetry
from rules.errors import StallwatchError
from rules.hashing import rules_hash
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from engine.config.model import Config
    from engine.flush import Flush
    from engine.protocols import Delivery, OpenDelivery, Probe
    from engine.rulegroup.state import GroupState
    from rules.model import RuleFile

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Agent:
    """One node's agent. `start` returns when the probes have said how they stand.

    Raises StateLockedError where another agent has the state folder.
    `recording`: the folder of the recording, by default one in the state folder.
    """

    config: Config
    files: tuple[RuleFile, ...]
    probes: Sequence[Probe]
    open_delivery: OpenDelivery
    recording: Path | None = None
    clock: Callable[[], float] = time.time
    telemetry: Telemetry = field(default_factory=Telemetry)
    store: Store = field(init=False)
    baselines: Baselines = field(init=False)
    state: StateDb = field(init=False)
    recorder: Recorder | Unrecorded = field(init=False)
    delivery: Delivery = field(init=False)
    collector: Collector = field(init=False)
    flusher: Flusher = field(init=False)
    evaluator: Evaluator = field(init=False)
    started: bool = False
    # Why the agent cannot go on, with a hint, "" while it can: a stage has ended that must not.
    fault: str = ""
    _log: RecordingLog = field(init=False)
    _lock: StateLock = field(init=False)

    def __post_init__(self) -> None:
        config = self.config
        now_ms = int(self.clock() * 1000)
        self._lock = StateLock(config.state_dir / "state.db")
        self.state = StateDb.open(config.state_dir / "state.db")
        self.recorder = open_recorder(config, self.recording)
        self._log = RecordingLog(self.recorder)
        logging.getLogger().addHandler(self._log)
        recording = resume.complete(self.recorder, self.state)
        options = GroupOptions.of(config)
        self.store = Store(live_window_ms(self.files, options))
        resume.refill(self.store, recording, now_ms)
        self.baselines = Baselines(
            baseline_settings(config), options.engine, self.recorder, self.store
        )
        self.baselines.follow(self.files, recording, now_ms)
        self.delivery = self.open_delivery(config, self.state.file)
        self.telemetry.sources.append(self._counted_elsewhere)
        version = importlib.metadata.version("stallwatch")
        self.telemetry.set("stallwatch_build_info", 1, version=version)
        for stage in ("evaluator", "flusher"):
            self.telemetry.add("stallwatch_stage_faults_total", 0, stage=stage)
        queue = ReadingQueue(config.queue.size)
        settings = {name: dict(own.settings) for name, own in config.probes.items()}
        for name, own in config.probes.items():
            settings[name]["enabled"] = own.enabled
        self.collector = Collector(
            self.probes,
            queue,
            config.flush_interval.ms,
            settings,
            poll_seconds=min(0.5, config.flush_interval.seconds / 4, config.queue.max_wait.seconds),
            clock=self.clock,
            on_fault=self._failed,
        )
        states = self.state.load()
        for key, state in states.items():
            states[key] = self._after_downtime(state, now_ms)
        runners = self._runners(states, now_ms)
        resume.recall_evidence(runners, self.store, recording)
        self.evaluator = Evaluator(
            runners,
            self.store,
            self.state,
            self.recorder,
            self.delivery,
            self.telemetry,
            config.flush_interval.ms,
            now_ms,
            clock=self.clock,
            on_fault=self._failed,
            before=self.baselines.before,
        )
        base = Labels({"cluster": config.cluster, "node": config.node})
        self.flusher = Flusher(
            queue,
            Aggregator(Fold(base), TaskDirectory(), max_events=config.queue.size),
            self.telemetry,
            (self.store.append, self.recorder.write, self._began, self.evaluator.flushed),
            batch=config.queue.batch,
            max_wait_seconds=config.queue.max_wait.seconds,
            on_fault=self._failed,
        )
        self.recorder.log_restart(now_ms)
        self.recorder.log_baselines(self.baselines.settings.to_json(), now_ms)
        self._log_rules(runners, now_ms)
        resume.log_downtime(self.recorder, runners, now_ms)

    def start(self) -> None:
        """Start the stages, last one first, so that nothing is produced before it can be taken."""
        self.delivery.start()
        self.evaluator.start()
        self.flusher.start()
        self.collector.start()
        # Before the first flush says the same, for whoever looks at once.
        for status in self.collector.statuses.values():
            self.flusher.show(status)
        self.started = True

    def stop(self) -> None:
        """Stop the stages, first one first, so that what was produced still arrives."""
        self.collector.stop()
        self.flusher.stop()
        self.evaluator.stop()
        self.baselines.stop(self.evaluator.flushed_ms)
        self.delivery.stop(timeout_seconds=5.0)
        logging.getLogger().removeHandler(self._log)
        self.recorder.close()
        self.state.close()
        self._lock.release()

    def reload(self, files: tuple[RuleFile, ...]) -> None:
        """Go on with other rules; state follows rule name and labels (docs/semantics.md, 23)."""
        with self.evaluator.evaluating:
            now_ms = int(self.clock() * 1000)
            old = {
                (runner.group.file, runner.group.name): runner.state
                for runner in self.evaluator.runners
            }
            self.files = files
            window_ms = live_window_ms(files, self.group_options())
            self.store.window_ms = max(self.store.window_ms, window_ms)
            runners = self._runners(old, now_ms)
            recording = resume.complete(self.recorder, self.state)
            resume.recall_evidence(runners, self.store, recording)
            self.baselines.follow(files, recording, now_ms)
            self.evaluator.arrange(runners, now_ms)
            self._log_rules(runners, now_ms)

    def group_options(self) -> GroupOptions:
        """What every rule group shares."""
        options = GroupOptions.of(self.config)
        return replace(options, engine=replace(options.engine, folds=self.baselines.folds))

    def _began(self, flush: Flush) -> None:
        self.baselines.began(flush.timestamp_ms)

    def _runners(
        self, states: dict[tuple[str, str], GroupState], now_ms: int
    ) -> tuple[GroupRunner, ...]:
        """A runner per group in file order; groups that are gone are settled."""
        options = self.group_options()
        runners = []
        for group in (group for file in self.files for group in file.groups):
            state = states.pop((group.file, group.name), None)
            runners.append(GroupRunner(group, options, state))
        for key, state in states.items():
            settled = retire(state, now_ms, self.store)
            self.state.commit([], settled.transitions, self.delivery.enqueue, gone=[key])
            resume.write_samples(self.recorder, settled.samples)
        return tuple(runners)

    def _after_downtime(self, state: GroupState, now_ms: int) -> GroupState:
        """A saved state as this start takes it up."""
        options = self.group_options()
        own = (group for file in self.files for group in file.groups)
        intervals = {(group.file, group.name): options.interval_of(group) for group in own}
        interval_ms = intervals.get((state.file, state.group), 0)
        return after_downtime(state, now_ms, options.max_down_ms, interval_ms)

    def _failed(self, stage: str, error: BaseException) -> None:
        if isinstance(error, StallwatchError):
            found = f"{error}\n    hint: start the agent again; it goes on from the recording"
        else:
            found = (
                f"the {stage} has failed: {type(error).__name__}: {error}\n    hint: the log above "
                "has the traceback; start the agent again, and please report this"
            )
        self.fault = self.fault or found

    def _log_rules(self, runners: Iterable[GroupRunner], now_ms: int) -> None:
        self.recorder.log_rules(rules_hash(self.files), now_ms)
        for runner in runners:
            group = runner.group
            self.recorder.log_interval(group.file, group.name, runner.interval_ms)

    def _counted_elsewhere(self) -> list[OwnSample]:
        """Metrics that other stages keep themselves."""
        found: list[OwnSample] = [
            ("stallwatch_store_series", (), "gauge", float(self.store.series_count)),
            ("stallwatch_store_bytes", (), "gauge", float(self.store.nbytes)),
            ("stallwatch_state_up", (), "gauge", float(self.state.up)),
            *(
                ("stallwatch_state_mended_total", (("reason", why),), "counter", float(count))
                for why, count in self.state.file.mended.items()
            ),
            ("stallwatch_recording_up", (), "gauge", float(self.recorder.failing is None)),
            (
                "stallwatch_recording_failures_total",
                (),
                "counter",
                float(self.recorder.write_failures_total),
            ),
            ("stallwatch_flushes_missed_total", (), "counter", float(self.collector.missed)),
            *self.delivery.samples(),
            *self.baselines.samples(),
        ]
        for reason, count in self.store.dropped_total.items():
            found.append(
                ("stallwatch_store_dropped_total", (("reason", reason),), "counter", float(count))
            )
        return found


def open_recorder(config: Config, folder: Path | None = None) -> Recorder | Unrecorded:
    """The recording of a configuration; where none can be kept, the agent runs without.

    Raises FolderLockedError when another agent has it. Raises
    DataError for a folder that was asked for by name and cannot be used.
    """
    try:
        return Recorder(
            str(folder or config.state_dir / "recording"),
            node=config.node,
            flush_interval_ms=config.flush_interval.ms,
            retention=_retention(config),
            on_failure=lambda why: LOG.error("the recording cannot be written: %s", why),
            seal_hour=seal_apart,
        )
    except FolderLockedError:
        raise
    except DataError as error:
        if folder is not None:
            raise
        LOG.error("running without a recording: %s", error)  # noqa: TRY400 - a message, no traceback
        return Unrecorded(str(error))


def _retention(config: Config) -> Retention:
    """The byte bound is one number for the user; metrics are most of what is written."""
    total = int(config.retention.max_bytes)
    return Retention(
        metrics=Keep(config.retention.metrics.ms, total * 8 // 10),
        events=Keep(config.retention.events.ms, total // 10),
        log=Keep(config.retention.log.ms, total // 10),
    )
