"""The two rings: events, and where it is asked for the sequence of calls."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from engine.readings import Count, Event
from probes.clock.wall import unix_ms
from probes.nccl.events import STREAM, readings
from probes.nccl.records import CallRecord, EventRecord, Kind, layout
from probes.nccl.sequence import Sequences, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.readings import Process, Reading
    from probes.bpf.events import EventReader
    from probes.bpf.loader import BpfObject
    from probes.functions.owners import Owners
    from probes.nccl.settings import NcclSettings

SEQUENCE = "sequence"
STREAMS = ("", STREAM, SEQUENCE)


class Rings:
    """Raises UnavailableError. `made`: processes that made a communicator, until it is emptied."""

    def __init__(self, bpf: BpfObject, owners: Owners, settings: NcclSettings) -> None:
        self._owners = owners
        self._settings = settings
        self._events: EventReader = bpf.events("events", settings.event_pages)
        self._calls: EventReader | None = None
        self._sequences = Sequences(settings.sequence_length)
        self._told: Counter[Process | None] = Counter()
        self.made: set[int] = set()
        if settings.sequence:
            self._calls = bpf.events(SEQUENCE, settings.sequence_pages)
            publish(self._sequences)

    def drain(self) -> Iterator[Reading]:
        """What the records mean."""
        for raw in self._events.drain():
            record = EventRecord(*layout(EventRecord).unpack(raw[: layout(EventRecord).size]))
            process = self._owners.at(record.pid, record.time)
            for reading in readings(
                record,
                process,
                slow_seconds=self._settings.slow_init_seconds,
                to_ms=unix_ms,
                told=self._told[process] < self._settings.events,
            ):
                self._told[process] += isinstance(reading, Event)
                yield reading
            if record.kind == Kind.INIT and not record.result:
                self.made.add(record.pid)
        if self._calls is not None:
            yield from self._drain_calls(self._calls)

    def begin_flush(self) -> None:
        """Events of a process are bounded anew."""
        self._told.clear()

    def forget(self, process: Process) -> None:
        """A process ended."""
        self._sequences.forget(process)

    def close(self) -> None:
        """Nobody reads the sequences any more."""
        publish(None)

    def _drain_calls(self, calls: EventReader) -> Iterator[Count]:
        weights: Counter[Process | None] = Counter()
        for raw in calls.drain():
            record = CallRecord(*layout(CallRecord).unpack(raw[: layout(CallRecord).size]))
            process = self._owners.at(record.thread >> 32, record.time)
            weights[process] += 1
            if process is not None:
                self._sequences.add(process, record)
        for process, weight in weights.items():
            labels = (("op", "AllReduce"),)
            yield Count("nccl_calls_total", process, 0.0, labels, weight, SEQUENCE)
