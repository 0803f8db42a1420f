"""From the maps of probes/bpf/words/calls.h to what each process called since the last look."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from engine.readings import Produced
from probes.bpf.errors import UnavailableError
from probes.bpf.loader import ProgramType
from probes.functions.owners import Owners
from probes.functions.records import Slow, Thread, Total, TotalKey
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from engine.readings import Process
    from probes.bpf.loader import BpfObject

STREAMS = ("", "events")
# (stream, reason) of the counters in sw_lost.
REASONS = (("", "map_full"), ("", "threads_full"), ("events", "ring_full"))
EXIT_PROGRAM = {"call_exit": ProgramType.RAW_TRACEPOINT}
SLOW_PAGES = 32


@dataclass(frozen=True, slots=True)
class Calls:
    """What a process did in a slot since the last look; `process` None: it was never seen."""

    process: Process | None
    name: str
    total: Total


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that has not returned. `since`: CLOCK_MONOTONIC nanoseconds."""

    process: Process | None
    tid: int
    name: str
    since: int


@dataclass(frozen=True, slots=True)
class SlowCall:
    """A call that took at least its slot's threshold."""

    process: Process | None
    name: str
    record: Slow

    @property
    def time_ms(self) -> int:
        """When it ended, unix milliseconds."""
        age = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - self.record.end
        return (time.time_ns() - age) // 1_000_000

    @property
    def comm(self) -> str:
        """What its process is called now, "" when it is gone."""
        stat = Procfs().stat(self.process.pid) if self.process is not None else None
        return stat.comm if stat is not None else ""


@dataclass(frozen=True, slots=True)
class Look:
    """One reading of the maps. `now`: taken before it, CLOCK_MONOTONIC nanoseconds.

    `callers`: by pid, the threads that have called what is probed at its entry and exits.
    """

    now: int
    calls: tuple[Calls, ...]
    open: tuple[OpenCall, ...]
    callers: Mapping[int, Collection[int]] = field(default_factory=dict)


class CallTotals:
    """Reads the maps of a loaded program that includes calls.h; slot i is called `names[i]`.

    The programs loaded must include EXIT_PROGRAM. One thread uses it.
    """

    def __init__(
        self, bpf: BpfObject, names: Sequence[str], *, owners: Owners | None = None
    ) -> None:
        self._bpf = bpf
        self.names = tuple(names)
        self.owners = owners or Owners()
        # The bytes of the map: most of them are those of the last look and need no decoding.
        self._seen: dict[bytes, bytes] = {}
        self._retired: set[bytes] = set()
        self._slow = bpf.events("call_slow_events", SLOW_PAGES)
        # Without it a pid that is used again within one look keeps its predecessor's counts.
        self.deaf = ""
        try:
            bpf.attach_raw_tracepoint("call_exit", "sched_process_exit")
        except UnavailableError as error:
            self.deaf = error.detail

    def set_threshold(self, name: str, seconds: float) -> None:
        """From which duration on a call in a slot is an event; 0: never."""
        for slot, each in enumerate(self.names):
            if each == name:
                value = struct.pack("=Q", int(seconds * 1e9))
                self._bpf.map("call_thresholds").update(struct.pack("=I", slot), value)

    def join(self, process: Process) -> None:
        """A process is watched: what its pid does from its start on is its own."""
        self.owners.join(process)

    def leave(self, process: Process) -> None:
        """A process ended; what it did last is still found by the next look."""
        self.owners.leave(process)

    def look(self) -> Look:
        """What was counted since the last look, and which calls are open now."""
        # Before the maps are read: a call that begins in between is then zero, never negative.
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        calls: list[Calls] = []
        open_: list[OpenCall] = []
        callers: dict[int, set[int]] = {}
        self.owners.refresh(self._born())
        for key, value in self._bpf.map("call_totals").items():
            calls += self._settle(key, value)
        for key, value in self._bpf.map("call_threads").items():
            thread = Thread.decode(key, value)
            if not self.owners.runs(thread.pid, thread.tid):
                calls += self._bury(key, thread)
                continue
            callers.setdefault(thread.pid, set()).add(thread.tid)
            if thread.open_since:
                owner = self.owners.at(thread.pid, thread.open_since)
                if owner is not None:
                    open_.append(
                        OpenCall(owner, thread.tid, self._name(thread.slot), thread.open_since)
                    )
        self.owners.forget()
        return Look(now, tuple(calls), tuple(open_), callers)

    def slow(self) -> list[SlowCall]:
        """The slow calls since the last time; each is one of stream "events"."""
        records = [Slow.decode(record) for record in self._slow.drain()]
        return [SlowCall(self.owners.at(r.pid, r.end), self._name(r.slot), r) for r in records]

    def close_open(self, names: Iterable[str]) -> None:
        """Calls of these slots are no longer followed (their probes were detached)."""
        slots = {slot for slot, name in enumerate(self.names) if name in set(names)}
        threads = self._bpf.map("call_threads")
        for key, value in threads.items():
            thread = Thread.decode(key, value)
            if thread.slot in slots and thread.frames:
                threads.update(key, thread.closed())

    def produced(self, probe: str, programs: Iterable[str] = ()) -> Produced:
        """The kernel's own counts; `programs`: whose recursion misses are losses too."""
        produced = zip(STREAMS, self._bpf.produced(), strict=False)
        lost = list(zip(REASONS, self._bpf.lost(), strict=False))
        misses = sum(self._bpf.recursion_misses(program) for program in programs)
        losses = (*lost, (("", "recursion_misses"), misses))
        return Produced(probe, tuple(produced), losses, self._bpf.map_use())

    def _born(self) -> dict[int, int]:
        items = self._bpf.map("call_processes").items()
        return {struct.unpack("=I", k)[0]: struct.unpack("=Q", v)[0] for k, v in items}

    def _settle(self, row: bytes, value: bytes) -> list[Calls]:
        before = self._seen.get(row) or bytes(len(value))
        self._seen[row] = value
        key = TotalKey.decode(row)
        owner = self.owners.of(key.tgid, key.born)
        if not self.owners.lives(key.tgid, key.born):
            # A program may be about to add to it: it goes when a whole look has seen it at rest.
            if row in self._retired and value == before:
                self._retired.discard(row)
                self._bpf.map("call_totals").delete(row)
                del self._seen[row]
            else:
                self._retired.add(row)
        if value == before:
            return []
        grown = Total.decode(value).since(Total.decode(before))
        return [Calls(owner, self._name(key.slot), grown)]

    def _bury(self, key: bytes, thread: Thread) -> list[Calls]:
        """A thread ended: its entries that had no exit are counted now."""
        value = self._bpf.map("call_threads").take(key)
        if value is None:
            return []
        thread = Thread.decode(key, value)
        if not thread.entries and not thread.abandoned and not thread.frames:
            return []
        owner = self.owners.at(thread.pid, thread.open_since) if thread.open_since else None
        owner = owner or self.owners.last(thread.pid)
        total = Total(hits=thread.entries, abandoned=thread.abandoned + thread.frames)
        return [Calls(owner, self._name(thread.slot), total)]

    def _name(self, slot: int) -> str:
        return self.names[slot] if slot < len(self.names) else str(slot)
