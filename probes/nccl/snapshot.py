"""One reading of the program's maps, and their clearing when a process has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from probes.nccl.abi import FIRST_INITIALISATION
from probes.nccl.records import (
    Clock,
    ClockKey,
    Communicator,
    ErrorKey,
    Interval,
    Pending,
    Place,
    ProcessRecord,
    Spent,
    SpentKey,
    ThreadRecord,
    Total,
    TotalKey,
    layout,
)
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from probes.bpf.loader import BpfObject

_K = TypeVar("_K", bound="tuple[int, ...]")
_V = TypeVar("_V", bound="tuple[int, ...]")


@dataclass(slots=True)
class View:
    """What the maps hold of one owner."""

    process: ProcessRecord
    ended: bool
    totals: dict[TotalKey, Total] = field(default_factory=dict)
    errors: dict[ErrorKey, int] = field(default_factory=dict)
    communicators: dict[Place, Communicator] = field(default_factory=dict)
    intervals: dict[ClockKey, Interval] = field(default_factory=dict)
    spent: dict[SpentKey, Spent] = field(default_factory=dict)
    threads: dict[tuple[int, int], ThreadRecord] = field(default_factory=dict)

    def open_initialisations(self, pending: dict[tuple[int, int], int]) -> list[int]:
        """When each initialisation that has not ended began."""
        begun = [
            record.since
            for record in self.threads.values()
            if record.frame and record.function >= FIRST_INITIALISATION
        ]
        begun += [pending[place] for place in self.threads if place in pending]
        return begun + [each.since for each in self.communicators.values() if not each.ready]


@dataclass(slots=True)
class Snapshot:
    """What the maps hold, by owner. `pending`: when each begun initialisation began, by thread."""

    views: dict[int, View] = field(default_factory=dict)
    pending: dict[tuple[int, int], int] = field(default_factory=dict)


class Maps:
    """The maps of a loaded program."""

    def __init__(self, bpf: BpfObject) -> None:
        self._bpf = bpf

    def pids(self) -> set[int]:
        """The processes that called."""
        return {int.from_bytes(key, "little") for key in self._bpf.map("processes").keys()}  # noqa: SIM118 - a map of the kernel's

    def read(self) -> Snapshot:
        """Everything. Processes come last, so that no hit is weighed before its result is read."""
        snapshot = Snapshot()
        totals = self._read("totals", TotalKey, Total)
        errors = self._read_numbers("errors", ErrorKey)
        communicators = self._read("communicators", Place, Communicator)
        spent = self._read("spent", SpentKey, Spent)
        intervals = self._read("intervals", ClockKey, Interval)
        threads = self._read_threads()
        for key, value in self._bpf.map("pending").items():
            thread = int.from_bytes(key[:8], "little")
            since = layout(Pending).unpack(value)[0]
            place = thread >> 32, thread & 0xFFFFFFFF
            snapshot.pending[place] = min(since, snapshot.pending.get(place, since))
        for name in ("processes", "ended_processes"):
            for _pid, value in self._bpf.map(name).items():  # noqa: PERF102 - a map of the kernel's
                record = ProcessRecord.decode(value)
                # One that ends in between is in the first map or in both.
                snapshot.views[record.born] = View(record, ended=name != "processes")
        for rows, attribute in (
            (totals, "totals"),
            (errors, "errors"),
            (communicators, "communicators"),
            (spent, "spent"),
            (intervals, "intervals"),
        ):
            for row, content in rows.items():
                view = snapshot.views.get(row[0])
                if view is not None:
                    getattr(view, attribute)[row] = content
        for place, thread_record in threads.items():
            view = snapshot.views.get(thread_record.owner)
            if view is not None:
                view.threads[place] = thread_record
        return snapshot

    def forget_thread(self, pid: int, tid: int) -> None:
        """A thread ended."""
        self._bpf.map("threads").delete((pid << 32 | tid).to_bytes(8, "little"))

    def set_waiting(self, owner: int, waiting: int) -> None:
        """After a thread ended in a wait: how many others still are; with none, nothing runs."""
        if waiting:
            key = layout(ClockKey).pack(owner, Clock.WAITING)
            self._bpf.map("running").update(key, waiting.to_bytes(8, "little"))
            return
        self.stop_clock(owner, Clock.WAITING)
        self._bpf.map("intervals").delete(layout(ClockKey).pack(owner, Clock.EXPOSED))

    def stop_clock(self, owner: int, kind: Clock) -> None:
        """Nothing of a kind runs any more."""
        key = layout(ClockKey).pack(owner, kind)
        self._bpf.map("intervals").delete(key)
        self._bpf.map("running").delete(key)

    def forget(self, view: View) -> None:
        """Clear all that a process left."""
        owner = view.process.born
        self._delete("totals", TotalKey, view.totals)
        self._delete("errors", ErrorKey, view.errors)
        self._delete("communicators", Place, view.communicators)
        self._delete("spent", SpentKey, view.spent)
        for kind in Clock:
            self.stop_clock(owner, kind)
        for pid, tid in view.threads:
            self.forget_thread(pid, tid)
        tgid = view.process.tgid.to_bytes(4, "little")
        current = self._bpf.map("processes").lookup(tgid)
        if current is not None and ProcessRecord.decode(current).born == owner:
            self._bpf.map("processes").delete(tgid)
        self._bpf.map("ended_processes").delete(owner.to_bytes(8, "little"))

    def _delete(self, name: str, kind: type[_K], rows: Iterable[_K]) -> None:
        for row in rows:
            self._bpf.map(name).delete(layout(kind).pack(*row))

    def _read(self, name: str, key: type[_K], value: type[_V]) -> dict[_K, _V]:
        keys, values = layout(key), layout(value)
        return {
            key._make(keys.unpack(raw_key)): value._make(values.unpack(raw))  # type: ignore[attr-defined]
            for raw_key, raw in self._bpf.map(name).items()
        }

    def _read_numbers(self, name: str, key: type[_K]) -> dict[_K, int]:
        keys = layout(key)
        return {
            key._make(keys.unpack(raw_key)): int.from_bytes(raw, "little")  # type: ignore[attr-defined]
            for raw_key, raw in self._bpf.map(name).items()
        }

    def _read_threads(self) -> dict[tuple[int, int], ThreadRecord]:
        found = {}
        for key, value in self._bpf.map("threads").items():
            thread = int.from_bytes(key, "little")
            record = ThreadRecord(*layout(ThreadRecord).unpack(value))
            found[thread >> 32, thread & 0xFFFFFFFF] = record
        return found
