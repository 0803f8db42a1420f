"""A start after a stop or a kill: the recording, the live window and the alerts go on as they were.

`state.db` says what was evaluated; the recording follows it. Whatever moment a kill fell into, a
dry-run of the recording then sees just the evaluations that happened.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from engine.alerts.machine import is_active
from engine.dataset.errors import DataError
from engine.recording import Recorder, open_recording, read_window

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.labels import Labels
    from engine.recording import Recording, Unrecorded
    from engine.rulegroup.runner import GroupRunner
    from engine.series import Sample
    from engine.state import StateDb
    from engine.store import Store

LOG = logging.getLogger(__name__)


def complete(recorder: Recorder | Unrecorded, state: StateDb) -> Recording | None:
    """The recording with every committed evaluation in it; None where there is none to read.

    A kill between the commit of an evaluation and its recording leaves the two apart.
    """
    if not isinstance(recorder, Recorder):
        return None
    try:
        recording = open_recording(recorder.path)
        behind = False
        for done in state.evaluations():
            evaluated = recording.slots(done.file, done.group).evaluated
            logged = len(evaluated) and int(evaluated[-1]) >= done.time_ms
            # A folder that is new, or younger than the state, does not know that time at all.
            if logged or not recording.start_ms <= done.time_ms or not recording.end_ms:
                continue
            write_evaluation(recorder, done.file, done.group, done.time_ms, done.samples)
            behind = True
        return open_recording(recorder.path) if behind else recording
    except DataError as error:
        LOG.warning("the live window starts empty: %s", error)
        return None


def write_evaluation(
    recorder: Recorder | Unrecorded, file: str, group: str, time_ms: int, samples: Sequence[Sample]
) -> None:
    """Record what a group's evaluation wrote, then that it happened."""
    write_samples(recorder, samples)
    recorder.log_evaluated(file, group, time_ms)


def write_samples(recorder: Recorder | Unrecorded, samples: Sequence[Sample]) -> None:
    """Record what rules wrote, in one batch for each time that occurs."""
    by_time: dict[int, list[tuple[Labels, float]]] = {}
    for sample in samples:
        by_time.setdefault(sample.timestamp_ms, []).append((sample.labels, sample.value))
    for timestamp_ms, own in by_time.items():
        values = np.array([value for _, value in own], dtype=np.float64)
        recorder.write_samples(timestamp_ms, [labels for labels, _ in own], values)


def refill(store: Store, recording: Recording | None, now_ms: int) -> None:
    """Give the live window what the recording still has of it."""
    if recording is None:
        return
    try:
        for time_ms, labels, values, events in read_window(
            recording.path, now_ms - store.window_ms, now_ms
        ):
            store.append_samples(time_ms, labels, values)
            store.append_events(events)
    except DataError as error:
        LOG.warning("the live window is not complete: %s", error)


def recall_evidence(
    runners: Iterable[GroupRunner], store: Store, recording: Recording | None
) -> None:
    """Add up again what explains the alerts that are active, however long they have been."""
    if recording is None:
        return
    for own in (rule for runner in runners for rule in runner.runners):
        active = [alert for alert in own.state.alerts.values() if is_active(alert)]
        if active:
            try:
                own.evidence.collect(active, store, recording)
            except DataError as error:
                LOG.warning("rule %s: evidence begins anew: %s", own.rule.name, error)


def log_downtime(
    recorder: Recorder | Unrecorded, runners: Iterable[GroupRunner], now_ms: int
) -> None:
    """Log the times at which a group was due while the agent was down."""
    for runner in runners:
        last_ms, interval_ms = runner.state.last_evaluation_ms, runner.interval_ms
        if last_ms is None:
            continue
        first_ms = last_ms - last_ms % interval_ms + interval_ms
        if first_ms <= now_ms:
            run = (first_ms, now_ms - now_ms % interval_ms, interval_ms)
            recorder.log_skipped(runner.group.file, runner.group.name, run, now_ms, "down")
