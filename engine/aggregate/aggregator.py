"""The aggregator: readings in, one `Flush` per interval out.

It also counts *consumed*: a reading's weight is added where the decoded value enters, nowhere
else, so that the drift against what the kernel produced is a real comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.aggregate.identity import Owner, TaskDirectory
from engine.flush import Flush, TaskEvent
from engine.readings import PROBES_READY, Count, Event, Gone, Level, Process, Told, Watched
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.aggregate.fold import Fold
    from engine.labels import Labels
    from engine.readings import Pairs, Reading

NO_TASK = Owner()
TASK_INFO = "stallwatch_task_info"
# How many flushes the owner of a dead process is remembered: TCP goes on for it for a while.
GRAVE_FLUSHES = 6


@dataclass(slots=True)
class Aggregator:
    """Owns the fold of one node. Not thread-safe: one thread adds and flushes.

    `max_events` bounds the events of one flush; what is over is dropped and counted.
    """

    fold: Fold
    directory: TaskDirectory
    max_events: int = 10_000
    consumed: dict[tuple[str, str], int] = field(default_factory=dict)
    dropped_events: dict[tuple[str, str], int] = field(default_factory=dict)
    _events: list[tuple[Event, Owner, int]] = field(default_factory=list)
    _sequence: int = 0
    _leaving: set[Process] = field(default_factory=set)
    _members: dict[str, set[Process]] = field(default_factory=dict)
    _owners: dict[Process, Owner] = field(default_factory=dict)
    _told: dict[Process, Told] = field(default_factory=dict)
    _metrics: dict[Process, dict[tuple[str, Pairs], None]] = field(default_factory=dict)
    _graves: dict[Process, tuple[Owner, int]] = field(default_factory=dict)
    _flushes: int = 0

    def add(self, probe: str, reading: Reading) -> None:
        """Take one reading of a probe."""
        match reading:
            case Count(process=process):
                self._consume(probe, reading)
                task_id, rank = self._group(process)
                self.fold.count((task_id, "" if reading.whole_task else rank), reading)
            case Level(process=process):
                self._consume(probe, reading)
                self.fold.level(self._group(process), reading)
            case Event(process=process):
                self._event(probe, reading, process)
            case Watched(process=process, metrics=metrics, library=library, parent=parent):
                self._watch(process, metrics, parent, library=bool(library))
            case Told(process=process):
                self._tell(process, reading)
            case Gone(process=process):
                # It may only have let go of a library, or run another program.
                if not self.directory.procfs.alive(process):
                    self._leaving.add(process)

    def flush(self, timestamp_ms: int, own: Iterable[tuple[Labels, float]] = ()) -> Flush:
        """Everything since the last flush, stamped `timestamp_ms`; `own` are the agent's metrics.

        The caller gives multiples of the flush interval, in order.
        """
        # Not before: the other probes that watched a dead process tell its last counts after the
        # first one has told of its end, and they are its task's.
        leaving, self._leaving = self._leaving, set()
        for process in sorted(leaving):
            self._gone(process)
        self._inform()
        samples = [*self.fold.flush(), *own]
        self._reap()
        node = self.fold.base.get("node")
        events = tuple(
            TaskEvent(
                time_ms=min(event.time_ms, timestamp_ms),
                flush_ms=timestamp_ms,
                kind=event.kind,
                node=node,
                task_id=owner.task_id,
                rank=owner.rank,
                pid=event.process.pid if event.process else 0,
                fields=(*event.fields, *owner.container.fields, ("sequence", sequence)),
            )
            for event, owner, sequence in self._events
        )
        self._events.clear()
        labels = tuple(label for label, _ in samples)
        values = np.array([value for _, value in samples], dtype=np.float64)
        return Flush(timestamp_ms, labels, values, events)

    def tasks(self) -> dict[str, int]:
        """Live processes by task."""
        return {task_id: len(members) for task_id, members in self._members.items()}

    def _consume(self, probe: str, reading: Count | Level | Event) -> None:
        if reading.weight:
            key = (probe, reading.stream)
            self.consumed[key] = self.consumed.get(key, 0) + reading.weight

    def _event(self, probe: str, event: Event, process: Process | None) -> None:
        if len(self._events) >= self.max_events:
            key = (probe, event.stream)
            self.dropped_events[key] = self.dropped_events.get(key, 0) + max(1, event.weight)
            return
        if event.weight:
            self._consume(probe, event)
        if event.kind == PROBES_READY:
            self._sequence = 0
        self._events.append((event, self._owner(process), self._sequence))
        self._sequence += 1

    def _group(self, process: Process | None) -> tuple[str, str]:
        owner = self._owner(process)
        # A socket may retransmit after its process has gone; with the task gone too, the series
        # have ended and must not come back to life.
        if owner.task_id not in self._members and process in self._graves:
            owner = NO_TASK
        return owner.task_id, owner.rank

    def _owner(self, process: Process | None, *, library: bool = False) -> Owner:
        if process is None:
            return NO_TASK
        known = self._owners.get(process)
        if known is not None and (known.task_id or not library):
            return known
        if process in self._graves:
            return self._graves[process][0]
        return self._settle(process, self.directory.lookup(process, library=library))

    def _settle(self, process: Process, found: Owner) -> Owner:
        """From now on a process counts for this owner; what was counted stays where it is."""
        told = self._told.get(process)
        if told is not None and found.task_id and not found.rank:
            found = replace(found, rank=str(told.rank))
        before = self._owners.get(process)
        self._owners[process] = found
        if before is not None and before.task_id != found.task_id:
            self._leave(process, before.task_id)
        if found.task_id:
            self._members.setdefault(found.task_id, set()).add(process)
            self.fold.revive(found.task_id)
            self.fold.start((found.task_id, found.rank), self._metrics.get(process, ()))
        return found

    def _watch(
        self,
        process: Process,
        metrics: Iterable[tuple[str, Pairs]],
        parent: Process | None,
        *,
        library: bool,
    ) -> None:
        self._renew(process)
        owner = self._owner(process, library=library)
        if owner == NO_TASK and parent is not None and process in self._owners:
            owner = self._settle(process, self._owner(parent))
        if process in self._owners:
            self._metrics.setdefault(process, {}).update(dict.fromkeys(metrics))
        if owner.task_id:
            self.fold.start((owner.task_id, owner.rank), metrics)

    def _tell(self, process: Process, told: Told) -> None:
        before = self._told.get(process)
        if before is not None and before.size >= told.size:
            return
        self._owner(process, library=True)
        if process in self._owners:
            self._told[process] = told
            self._settle(process, self.directory.lookup(process, library=True))

    def _renew(self, process: Process) -> None:
        if process in self._owners and self.directory.renewed(process):
            self._told.pop(process, None)
            self._settle(process, self.directory.lookup(process))

    def _inform(self) -> None:
        """One sample a rank that says where it runs: as its oldest process does."""
        speakers: dict[tuple[str, str], Process] = {}
        for process, owner in self._owners.items():
            if owner.task_id:
                group = (owner.task_id, owner.rank)
                speaker = speakers.setdefault(group, process)
                if (process.start_ticks, process.pid) < (speaker.start_ticks, speaker.pid):
                    speakers[group] = process
        for group, process in speakers.items():
            labels = self._owners[process].container.labels
            self.fold.level(group, Level(TASK_INFO, process, 1.0, labels))

    def _gone(self, process: Process) -> None:
        owner = self._owners.pop(process, None)
        self.directory.forget(process)
        self._told.pop(process, None)
        self._metrics.pop(process, None)
        if owner is None:
            return
        self._graves[process] = (owner, self._flushes + GRAVE_FLUSHES)
        self._leave(process, owner.task_id)

    def _leave(self, process: Process, task_id: str) -> None:
        members = self._members.get(task_id)
        if members is None:
            return
        members.discard(process)
        if not members:
            del self._members[task_id]
            self.fold.end(task_id)

    def _reap(self) -> None:
        """Find the dead ourselves: a probe that was off at the time cannot tell."""
        procfs = self.directory.procfs
        for process in list(self._owners):
            if procfs.alive(process):
                self._renew(process)
            else:
                self._leaving.add(process)
        self._flushes += 1
        for process in [p for p, (_, until) in self._graves.items() if until < self._flushes]:
            del self._graves[process]
