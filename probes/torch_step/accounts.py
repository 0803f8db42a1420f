"""From the kernel's per-thread sums to what each process did since the last look. Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from engine.readings import Count, Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.readings import Pairs, Process, Reading

NANOSECONDS = 1e9
WAIT_LABELS: Pairs = (("lib", "torch"), ("op", "finalize_backward"))
COUNTERS: tuple[tuple[str, Pairs], ...] = (
    ("steps_total", ()),
    ("comm_wait_seconds_total", WAIT_LABELS),
)


@dataclass(frozen=True, slots=True)
class ThreadState:
    """`struct thread` of program.bpf.c: counts, and times in nanoseconds of CLOCK_MONOTONIC."""

    hits: int = 0
    steps: int = 0
    timed: int = 0
    step_ns: int = 0
    step_wait_ns: int = 0
    wait_ns: int = 0
    abandoned: int = 0
    open_since: int = 0
    last_exit: int = 0

    @classmethod
    def decode(cls, value: bytes) -> ThreadState:
        """From the map's bytes."""
        return cls(*struct.unpack(f"={len(fields(cls))}Q", value))

    def waited(self, now: int) -> int:
        """Nanoseconds waited until `now`, the open wait included."""
        return self.wait_ns + (max(0, now - self.open_since) if self.open_since else 0)


def decode_key(key: bytes) -> tuple[int, int]:
    """(pid, tid) of bpf_get_current_pid_tgid()."""
    (both,) = struct.unpack("=Q", key)
    return both >> 32, both & 0xFFFFFFFF


def encode_key(pid: int, tid: int) -> bytes:
    """The key of a thread's record."""
    return struct.pack("=Q", pid << 32 | tid)


@dataclass(slots=True)
class Interval:
    """What a process did since the last look."""

    hits: int = 0
    steps: int = 0
    timed: int = 0
    step_ns: int = 0
    step_wait_ns: int = 0
    wait_ns: int = 0

    def readings(self, process: Process | None) -> Iterator[Reading]:
        """Counters; the first carries the weight of every hit. None: an owner never seen."""
        if self.hits:
            yield Count("steps_total", process, float(self.steps), weight=self.hits)
        if self.wait_ns:
            seconds = self.wait_ns / NANOSECONDS
            yield Count("comm_wait_seconds_total", process, seconds, WAIT_LABELS)

    def levels(self, process: Process, length_ns: int, *, waits: bool = True) -> Iterator[Reading]:
        """Gauges over an interval of `length_ns`; those of steps only if a step was completed.

        `waits` False: only steps can be seen, and a ratio of 0 would be a claim.
        """
        if waits:
            yield Level("comm_wait_ratio", process, ratio(self.wait_ns, length_ns))
        if self.timed:
            yield Level("step_time_seconds", process, self.step_ns / self.timed / NANOSECONDS)
            if waits:
                share = ratio(self.step_wait_ns, self.step_ns)
                yield Level("step_comm_wait_ratio", process, share)


def ratio(part: int, whole: int) -> float:
    """part/whole within [0, 1]."""
    return min(1.0, part / whole) if whole > 0 else 0.0


class Accounts:
    """The last seen state of every thread.

    Sums of one thread cannot overlap. Threads of one process that wait at the same time would count
    twice, so that a process' wait is bounded by the time that passed.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], ThreadState] = {}
        self._waited: dict[tuple[int, int], int] = {}
        self._settled: dict[int, int] = {}
        self.abandoned_total = 0

    def open_process(self, pid: int, now: int) -> None:
        """A process is watched from now on."""
        self._settled.setdefault(pid, now)

    def close_process(self, pid: int) -> None:
        """A process ended; its threads were closed."""
        self._settled.pop(pid, None)

    def length(self, pid: int, now: int) -> int:
        """Nanoseconds since the process was settled last."""
        return now - self._settled.get(pid, now)

    def settle(
        self, pid: int, threads: dict[int, ThreadState], ended: frozenset[int], now: int
    ) -> Interval:
        """What the process did since its last settlement.

        `threads`: by tid, as read from the kernel after `now` was taken. Those `ended` have their
        open wait end where it was last counted, and are forgotten: their record must be deleted.
        """
        interval = Interval()
        for tid, state in threads.items():
            self._add(interval, (pid, tid), state, now if tid not in ended else None)
            if tid in ended:
                self._seen.pop((pid, tid), None)
                self._waited.pop((pid, tid), None)
        if len(threads) > 1 and pid in self._settled:
            interval.wait_ns = min(interval.wait_ns, self.length(pid, now))
        if pid in self._settled:
            self._settled[pid] = now
        return interval

    def _add(
        self, interval: Interval, key: tuple[int, int], state: ThreadState, now: int | None
    ) -> None:
        before = self._seen.get(key, ThreadState())
        interval.hits += state.hits - before.hits
        interval.steps += state.steps - before.steps
        interval.timed += state.timed - before.timed
        interval.step_ns += state.step_ns - before.step_ns
        interval.step_wait_ns += state.step_wait_ns - before.step_wait_ns
        self.abandoned_total += state.abandoned - before.abandoned
        # A read that raced with an exit may show less than the last one did; it catches up.
        counted = self._waited.get(key, 0)
        waited = max(counted, state.wait_ns if now is None else state.waited(now))
        interval.wait_ns += waited - counted
        self._seen[key], self._waited[key] = state, waited
