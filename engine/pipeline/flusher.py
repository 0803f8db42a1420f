"""The flusher: takes readings off the queue, aggregates them and hands each flush to its sinks."""

from __future__ import annotations

import logging
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING

from engine.aggregate.queue import FlushMark
from engine.pipeline.stage import ignore_fault, start_stage
from engine.readings import Level
from engine.telemetry import METRICS
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from engine.aggregate.aggregator import Aggregator
    from engine.aggregate.queue import Item, ReadingQueue
    from engine.flush import Flush
    from engine.pipeline.stage import OnFault
    from engine.readings import ProbeStatus, Reading
    from engine.telemetry import Telemetry

LOG = logging.getLogger(__name__)
# So many flushes in a row that fail leave the rules blind: the stage gives up, and says so.
MAX_FAULTS = 3


@dataclass(slots=True)
class Flusher:
    """One thread. `sinks` get each flush in order: the live window, the recording, the rules."""

    queue: ReadingQueue
    aggregator: Aggregator
    telemetry: Telemetry
    sinks: Sequence[Callable[[Flush], object]]
    batch: int = 512
    max_wait_seconds: float = 2.0
    on_fault: OnFault = ignore_fault
    _faults: int = 0
    _thread: threading.Thread | None = None
    _last_ms: int = field(default=0)
    # What probes say of themselves since the last flush, and the names of what they said before.
    _told: list[Level] = field(default_factory=list)
    _own: set[str] = field(default_factory=set)

    def start(self) -> None:
        """Begin to take readings."""
        self._thread = start_stage("flusher", self._run, self.on_fault)

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """Take what is left in the queue, then end."""
        self.queue.close()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self.queue.closed:
            for item in self.queue.take(self.batch, self.max_wait_seconds):
                self.take(item)

    def take(self, item: Item) -> None:
        """Take one item off the queue; one that cannot be taken is logged, counted and left."""
        try:
            if isinstance(item, FlushMark):
                self.flush(item)
                self._faults = 0
            elif (told := own_level(item[1])) is not None:
                self._told.append(told)
            else:
                self.aggregator.add(*item)
        except Exception:
            LOG.exception("the flusher cannot take %r", item)
            self.telemetry.add("stallwatch_stage_faults_total", stage="flusher")
            if isinstance(item, FlushMark):
                self._faults += 1
                if self._faults >= MAX_FAULTS:
                    raise

    def flush(self, mark: FlushMark) -> None:
        """Make the flush that a mark asks for. A clock that went back makes none."""
        if mark.timestamp_ms <= self._last_ms:
            LOG.warning("the clock went back: no flush at %d ms", mark.timestamp_ms)
            return
        self._last_ms = mark.timestamp_ms
        started = time.monotonic()
        self._measure(mark)
        base = self.aggregator.fold.base
        flush = self.aggregator.flush(mark.timestamp_ms, self.telemetry.flush(base))
        for sink in self.sinks:
            sink(flush)
        self.telemetry.add("stallwatch_flushes_total")
        self.telemetry.set("stallwatch_flush_seconds", time.monotonic() - started)

    def show(self, status: ProbeStatus) -> None:
        """Say how a probe stands. One that is degraded is up, with its reason."""
        up = 0.0 if status.state == "off" else 1.0
        self.telemetry.set("stallwatch_probe_up", up, probe=status.probe, reason=status.reason)

    def _measure(self, mark: FlushMark) -> None:
        told = self.telemetry
        told.clear("stallwatch_probe_up")
        for status in mark.statuses:
            self.show(status)
        for produced in mark.produced:
            self._measure_drift(produced.probe, dict(produced.produced), dict(produced.lost))
            for use in produced.maps:
                names = {"probe": produced.probe, "map": use.map}
                told.set("stallwatch_probe_map_entries", use.entries, **names)
                told.set("stallwatch_probe_map_limit", use.limit, **names)
        self._measure_probes()
        told.set("stallwatch_queue_depth", self.queue.depth())
        told.set("stallwatch_tasks", len(self.aggregator.tasks()))
        told.set("stallwatch_series_refused_total", self.aggregator.fold.refused)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        told.set("stallwatch_process_cpu_seconds_total", usage.ru_utime + usage.ru_stime)
        told.set("stallwatch_process_resident_bytes", resident_bytes())

    def _measure_probes(self) -> None:
        """What a probe says of itself stands until the next flush, on `/metrics` too."""
        for name in self._own:
            self.telemetry.clear(name)
        for level in self._told:
            self.telemetry.set(level.metric, level.value, **dict(level.labels))
        self._own, self._told = {level.metric for level in self._told}, []

    def _measure_drift(
        self, probe: str, produced: dict[str, int], lost: dict[tuple[str, str], int]
    ) -> None:
        """Every counter is there from the first flush, or `increase` would miss its first step."""
        told = self.telemetry
        dropped, over = self.queue.dropped(), self.aggregator.dropped_events
        for stream, count in produced.items():
            key = (probe, stream)
            names = {"probe": probe, "stream": stream}
            told.set("stallwatch_probe_produced_total", count, **names)
            consumed = self.aggregator.consumed.get(key, 0)
            told.set("stallwatch_probe_consumed_total", consumed, **names)
            name = "stallwatch_probe_lost_total"
            told.set(name, dropped.get(key, 0), reason="queue_full", **names)
            told.set(name, over.get(key, 0), reason="event_limit", **names)
        for (stream, reason), count in lost.items():
            told.set(
                "stallwatch_probe_lost_total", count, probe=probe, stream=stream, reason=reason
            )


def own_level(reading: Reading) -> Level | None:
    """The reading, if it is one of the agent's own metrics and no kernel event stands behind it."""
    if not isinstance(reading, Level) or reading.process is not None or reading.weight:
        return None
    return reading if reading.metric in METRICS else None


def resident_bytes() -> float:
    """The agent's resident memory (`/proc/self/statm`, field 2, in pages)."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0.0
    return float(pages * resource.getpagesize())
