"""From the kernel's sums to what each process did since the last look. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.readings import Count, Level, Told
from probes.nccl import abi
from probes.nccl.budget import BYTES, CALLS_, FIRST_CLASS, SIZE, TRAPS
from probes.nccl.records import UNKNOWN_RANK, Clock
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.readings import Pairs, Process, Reading
    from probes.budget.bounds import Floats
    from probes.nccl.records import Communicator, ErrorKey, Total, TotalKey
    from probes.nccl.snapshot import View

NANOSECONDS = 1e9
LIBRARY: Pairs = (("lib", "nccl"),)
OTHER, UNKNOWN = "other", "unknown"
# What is started with a 0 as soon as a process is known; the other operations begin with their
# first call.
COUNTERS: tuple[tuple[str, Pairs], ...] = tuple(
    (metric, (("op", op),))
    for metric in ("nccl_calls_total", "nccl_bytes_total")
    for op in ("AllReduce", "AllGather", "ReduceScatter", "Broadcast")
)
SIZES = tuple(str(float(bound)) for bound in abi.SIZE_BOUNDS)


@dataclass(slots=True)
class Account:
    """What was seen of one owner. `settled`: when it was looked at last."""

    settled: int
    hits: int = 0
    totals: dict[TotalKey, Total] = field(default_factory=dict)
    errors: dict[ErrorKey, int] = field(default_factory=dict)
    spent: dict[tuple[int, int], int] = field(default_factory=dict)
    # What was waited in intervals that no exit will close, by clock and operation.
    extra: dict[tuple[int, int], int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    told: tuple[int, int] | None = None
    by_communicator: dict[str, tuple[int, int]] = field(default_factory=dict)

    def settle(self, view: View, process: Process | None) -> Iterator[Count]:
        """Counters that are never scaled; the first carries the weight of all hits.

        None: an owner never seen.
        """
        yield from self._hits(view, process)
        for name, (calls, size) in self.by_communicator.items():
            labels = (("communicator", name),)
            yield Count("nccl_communicator_calls_total", process, float(calls), labels)
            yield Count("nccl_communicator_bytes_total", process, float(size), labels)
        self.by_communicator.clear()
        for key, count in view.errors.items():
            before = self.errors.get(key, 0)
            self.errors[key] = count
            error = (("op", abi.call(key.call)), ("result", abi.result(key.result)))
            yield Count("nccl_errors_total", process, float(count - before), error)

    def advance(self, view: View, limit: int) -> dict[str, Floats]:
        """What was called since the last time, by operation: vectors of budget.py.

        `limit`: how many communicators have a name.
        """
        found: dict[str, Floats] = {}
        for key, total in view.totals.items():
            before = self.totals.get(key)
            self.totals[key] = total
            calls = total.calls - (before.calls if before else 0)
            size = total.bytes - (before.bytes if before else 0)
            op = abi.operation(key.operation)
            # Bytes without calls: the last look fell between the program's two additions.
            if not (calls or size) or op == abi.UNKNOWN:
                continue
            vector = found.setdefault(op, np.zeros(SIZE))
            vector[TRAPS] += calls
            vector[CALLS_] += calls
            vector[BYTES] += size
            vector[FIRST_CLASS + min(key.size_class, len(SIZES))] += calls
            name = self.name(key.communicator, limit)
            sums = self.by_communicator.get(name, (0, 0))
            self.by_communicator[name] = sums[0] + calls, sums[1] + size
        return found

    def waits(
        self, view: View, process: Process | None, now: int, *, known: bool, kernels: bool
    ) -> Iterator[Reading]:
        """Time waited since the last look, waits that go on included; moves on to `now`.

        `known`: whether synchronising calls are watched; a ratio of 0 would be a claim. `kernels`:
        whether what profiler plugins say of kernels is.
        """
        source = Clock.EXPOSED if view.process.kernels and kernels else Clock.WAITING
        waited = dict(self._advance(view, source, now))
        for op, ns in waited.items():
            labels = (*LIBRARY, ("op", abi.operation(op)))
            yield Count("comm_wait_seconds_total", process, ns / NANOSECONDS, labels)
        if source is Clock.EXPOSED:
            for op, ns in self._advance(view, Clock.KERNELS, now):
                labels = (("op", abi.operation(op)),)
                yield Count("nccl_kernel_seconds_total", process, ns / NANOSECONDS, labels)
        length = now - self.settled
        counts = known and view.process.enqueued and not view.ended
        if length > 0 and process is not None and counts:
            ratio = min(1.0, sum(waited.values()) / length)
            yield Level("comm_wait_ratio", process, ratio)
            name = "profiler" if source is Clock.EXPOSED else "synchronise"
            labels = (("probe", "nccl"), ("source", name))
            yield Level("stallwatch_probe_source", process, 1.0, labels)
        self.settled = now

    def abandon(self, view: View, *kinds: Clock) -> None:
        """Open intervals end where they were looked at last: nobody will close them."""
        for key, interval in view.intervals.items():
            if key.kind in kinds:
                place = key.kind, interval.operation
                ns = max(0, self.settled - interval.since)
                self.extra[place] = self.extra.get(place, 0) + ns
        view.intervals = {k: v for k, v in view.intervals.items() if k.kind not in kinds}

    def rank(self, view: View, process: Process) -> Iterator[Told]:
        """The global rank, whenever what is known of it changes."""
        told = told_rank(list(view.communicators.values()))
        if told is not None and told != self.told:
            self.told = told
            yield Told(process, *told)

    def levels(self, view: View, process: Process, limit: int) -> Iterator[Level]:
        """The communicators that are open."""
        yield Level("nccl_communicators", process, float(len(view.communicators)), fold="sum")
        for communicator in view.communicators.values():
            name = self.name(communicator.id, limit)
            if name in (OTHER, UNKNOWN):
                continue
            labels = (
                ("comm_rank", _known(communicator.rank)),
                ("communicator", name),
                ("nranks", _known(communicator.nranks)),
            )
            yield Level("nccl_communicator_info", process, 1.0, labels)

    def name(self, communicator: int, limit: int) -> str:
        """Its label value: the same on all ranks, but for those above the limit."""
        if not communicator:
            return UNKNOWN
        if communicator not in self.names and len(self.names) < limit:
            self.names[communicator] = name_of(communicator)
        return self.names.get(communicator, OTHER)

    def _hits(self, view: View, process: Process | None) -> Iterator[Count]:
        hits = view.process.hits - self.hits
        self.hits = view.process.hits
        if hits:
            labels = (("op", abi.operation(view.process.operation)),)
            yield Count("nccl_calls_total", process, 0.0, labels, weight=hits)

    def _advance(self, view: View, kind: Clock, now: int) -> Iterator[tuple[int, int]]:
        """(operation, nanoseconds) since the last look; open intervals until `now`."""
        sums: dict[int, int] = {}
        for key, spent in view.spent.items():
            if key.kind == kind:
                sums[key.operation] = sums.get(key.operation, 0) + spent.ns
        for (extra_kind, op), ns in self.extra.items():
            if extra_kind == kind:
                sums[op] = sums.get(op, 0) + ns
        for place, interval in view.intervals.items():
            if place.kind == kind and not view.ended:
                open_ns = max(0, now - interval.since)
                sums[interval.operation] = sums.get(interval.operation, 0) + open_ns
        for op, ns in sums.items():
            # A read that raced with an exit may show less than the last one did; it catches up.
            before = self.spent.get((kind, op), 0)
            if ns > before:
                self.spent[kind, op] = ns
                yield op, ns - before


def operation(process: Process | None, op: str, delta: Floats) -> Iterator[Count]:
    """The counters of an operation: a vector of budget.py."""
    labels = (("op", op),)
    calls, size = float(delta[CALLS_]), float(delta[BYTES])
    yield Count("nccl_calls_total", process, calls, labels)
    yield Count("nccl_bytes_total", process, size, labels)
    below = np.cumsum(delta[FIRST_CLASS:])
    for bound, count in zip(SIZES, below, strict=False):
        if count > 0:
            yield Count(
                "nccl_message_bytes_bucket", process, float(count), (*labels, ("le", bound))
            )
    yield Count("nccl_message_bytes_bucket", process, calls, (*labels, ("le", "+Inf")))
    yield Count("nccl_message_bytes_sum", process, size, labels)
    yield Count("nccl_message_bytes_count", process, calls, labels)


def name_of(communicator: int) -> str:
    """The identity of a communicator as a label value."""
    return f"{communicator:016x}"


def _known(number: int) -> str:
    return "" if number == UNKNOWN_RANK else str(number)


def told_rank(communicators: list[Communicator]) -> tuple[int, int] | None:
    """(global rank, ranks) as a process was told, None where that is not sure.

    The rank in the largest communicator that was made from an identity of its own, the oldest of
    equals: frameworks make the one of all ranks before any part of it. A communicator that was
    split off another numbers its ranks anew and never counts, nor does one of ncclCommInitAll,
    whose ranks are one process; two ranks of one communicator in a process leave it open.
    """
    roots = [each for each in communicators if each.function in ROOTS and each.nranks > 1]
    roots = [each for each in roots if each.rank != UNKNOWN_RANK and each.ready]
    if not roots:
        return None
    largest = max(roots, key=lambda each: (each.nranks, -each.since))
    ranks = {each.rank for each in roots if each.id == largest.id}
    return (largest.rank, largest.nranks) if len(ranks) == 1 else None


ROOTS = frozenset(
    abi.FIRST_INITIALISATION + abi.INITIALISATIONS.index(name)
    for name in ("CommInitRank", "CommInitRankConfig", "CommInitRankScalable")
)
