"""`steps_total`, `step_time_seconds`, `comm_wait_ratio` and friends of PyTorch jobs.

Source: uprobes on what libtorch_cpu.so exports: the end of DDP's backward pass, c10d's waits,
backward passes, and the named ranges that optimizers open. See README.md for what they mean with
Gloo and with NCCL, and for the marker that any other job may call.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from engine.readings import Gone, ProbeStatus, Process, Produced, Watched
from probes.bpf.accounting import account
from probes.bpf.errors import UnavailableError
from probes.bpf.loader import BpfObject, ProgramType, load
from probes.bpf.trial import try_uprobe
from probes.functions.owners import Owners
from probes.functions.sites import FunctionSites
from probes.libraries.shared import Changes, Subscription, subscribe
from probes.torch_step import report
from probes.torch_step.accounts import MARKED_BY, WAITED_BY, Accounts
from probes.torch_step.budget import Budget
from probes.torch_step.collectives import Rhythms
from probes.torch_step.functions import FINALIZE, TORCH, functions, members
from probes.torch_step.settings import StepSettings
from probes.torch_step.thread import (
    COLLECTIVES,
    Collective,
    Nanoseconds,
    ThreadKey,
    ThreadState,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from engine.readings import ProbeOptions, Reading
    from probes.bpf.events import EventReader
    from probes.torch_step.accounts import Interval

SOURCE = Path(__file__).with_name("program.bpf.c")
_PID, _TIME = struct.Struct("=I"), struct.Struct("=Q")
# A process; the kernel's (pid, born) of one that was gone before anybody saw it.
Who: TypeAlias = "Process | tuple[int, Nanoseconds]"
Threads: TypeAlias = "dict[ThreadKey, ThreadState]"
STREAMS = ("", "collectives")
LOSSES = (("", "map_full"), ("collectives", "ring_full"))


class TorchStepProbe:
    """See the module. One thread uses it."""

    name = "torch_step"
    Config: ClassVar[type[StepSettings]] = StepSettings

    def __init__(self) -> None:
        self._bpf: BpfObject | None = None
        self._watch: Subscription | None = None
        self._emit: Callable[[Reading], None] = _nowhere
        self._off = ProbeStatus(self.name, "off", "not_started")

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Load, and attach to every library that is mapped now."""
        self._emit = emit
        self._settings = StepSettings.model_validate(options.settings)
        self._accounts = Accounts()
        self._source = report.StepSource(self._settings.steps_from)
        self._ratio = report.WaitRatio()
        self._rhythms = Rhythms(self._settings.period_window)
        self._owners = Owners()
        self._born: dict[int, int] = {}
        self._deaf = ""
        wanted = functions(self._settings.marker_libraries)
        self._programs = {
            name for each in wanted for name in (each.enter, each.leave, each.mark) if name
        }
        try:
            self._bpf = self._load()
            # Without a job there is nothing to attach to yet; that it will be refused shows now.
            try_uprobe(self._bpf, "mark_wait")
            self._ring: EventReader = self._bpf.events(
                "collectives", self._settings.collectives_pages
            )
            self._follow_ends(self._bpf)
        except UnavailableError as error:
            self.stop()
            self._off = error.status(self.name)
            return self._off
        self._sites = FunctionSites(self._bpf, wanted, max_files=self._settings.files_limit)
        self._budget = Budget(
            self._sites, members(wanted), self._settings.budget, self._accounts.mend_gap
        )
        self._watch = subscribe(*dict.fromkeys(each.library for each in wanted))
        self.poll()
        return self.status()

    def _load(self) -> BpfObject:
        defines: dict[str, int | str] = {
            "MAX_THREADS": self._settings.threads_limit,
            "COLLECTIVE_PAGES": self._settings.collectives_pages,
        }
        kinds = dict.fromkeys(sorted(self._programs), ProgramType.UPROBE)
        return load(SOURCE, {**kinds, "on_exit": ProgramType.RAW_TRACEPOINT}, defines)

    def _follow_ends(self, bpf: BpfObject) -> None:
        try:
            bpf.attach_raw_tracepoint("on_exit", "sched_process_exit")
        except UnavailableError as error:
            # A pid that is used again between two flushes is then taken for its predecessor.
            self._deaf = error.detail

    def poll(self) -> None:
        """Attach to libraries that appeared, let go of those that nobody maps."""
        if self._watch is not None:
            self._sites.advance()
            self._apply(self._watch, self._watch.poll())
            self._drain()
            self._budget.poll(lambda: self._note(self._read()))

    def produced(self) -> Produced:
        """Entries and exits that the kernel saw, and collectives."""
        if self._bpf is None:
            return Produced(self.name)
        return account(self.name, self._bpf, STREAMS, LOSSES)

    def collect(self) -> None:
        """Emit what every watched process did since the last call."""
        watch = self._watch
        if watch is None:
            return
        self._drain()
        # Before the map is read: a wait that begins in between is then zero, never negative.
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        records = self._read()
        changes = Changes()
        for pid in {pid_of(who) for who in records} - {each.pid for each in watch.processes}:
            watch.look(pid, changes)  # forked from a watched one, so no linker told of it
        self._apply(watch, changes)
        for process in changes.gone:
            records.pop(process, None)  # counted already
        self._note(records)
        self._budget.step()
        for process in watch.processes:
            self._settle(watch, process, records.pop(process, {}), now)
        for who, threads in records.items():
            if isinstance(who, Process) and watch.identify(who.pid) == who:
                self._settle(watch, who, threads, now)  # though its maps may not be read
            else:
                parent = watch.parent(pid_of(who))
                known = who if isinstance(who, Process) else None
                self._close(who, parent or known, threads, now)
        self._owners.forget()
        self._tell_periods(watch)
        for level in self._budget.levels():
            self._emit(level)

    def status(self) -> ProbeStatus:
        """The present state."""
        watch = self._watch
        if watch is None:
            return self._off
        if watch.hook_error is not None:
            return watch.hook_error.status(self.name, "degraded")
        if self._sites.problem:
            return self._sites.status(self.name)
        modes = sorted(self._budget.modes.items())
        if groups := ", ".join(f"{name} ({mode})" for name, mode in modes if mode != "full"):
            detail = f"not watched all the time, as it would cost a process too much: {groups}"
            mend = "raise probes.torch_step.budget.ratio, or bear it: the rest is watched"
            return ProbeStatus(self.name, "degraded", "over_budget", detail, mend)
        deaf = watch.deaf or self._deaf
        if deaf:
            detail = f"starts and ends of some processes are noticed late: {deaf}"
            return ProbeStatus(self.name, "degraded", "no_tracepoint", detail)
        return ProbeStatus(self.name, "attached", "", self._detail(watch))

    def stop(self) -> None:
        """Detach."""
        if self._watch is not None:
            self._watch.close()
            self._sites.close()
            self._budget.close()
        if self._bpf is not None:
            self._bpf.close()
            self._off = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")
        self._bpf = self._watch = None

    def _detail(self, watch: Subscription) -> str:
        detail = f"processes: {len(watch.processes)}, files: {self._sites.count}"
        if self._accounts.abandoned_total:
            detail += f", entries that had no exit: {self._accounts.abandoned_total}"
        if watch.unreadable:
            detail += f", processes that cannot be read: {watch.unreadable}"
        return detail

    def _apply(self, watch: Subscription, changes: Changes) -> None:
        for mapped in changes.appeared:
            self._sites.attach(mapped)
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        # The dead first: one that joined may have the pid of one that is gone.
        records = self._read() if changes.gone else {}
        for process in changes.gone:
            self._close(process, process, records.get(process, {}), now)
            self._budget.forget(process)
            self._owners.leave(process)
            self._emit(Gone(process))
        for process in changes.joined:
            self._owners.join(process)
            self._accounts.open_process(process, now)
            waits = self._sees_waits(watch, process)
            counters = report.COUNTERS if waits else report.STEP_COUNTERS
            self._emit(Watched(process, counters, TORCH, watch.parent(process.pid)))
        for key in changes.vanished:
            self._sites.detach(key)

    def _sees_waits(self, watch: Subscription, process: Process) -> bool:
        """Whether entry and exits of what waits are probed; of an unknown process, maybe."""
        if self._budget.unseen & WAITED_BY:
            return False
        files = watch.files(process)
        return not files or any(self._sites.timed(key, FINALIZE) for key in files)

    def _settle(
        self, watch: Subscription, process: Process, threads: Threads, now: Nanoseconds
    ) -> None:
        length = self._accounts.length(process, now)
        ended = self._ended(watch, process, threads)
        interval = self._accounts.settle(process, threads, ended, now)
        interval.leave_out(self._budget.unseen)
        self._forget(ended)
        source = self._steps_from(process, interval)
        waits, stands = self._sees_waits(watch, process), self._budget.in_slices
        for reading in (
            *report.counts(interval, process, source),
            *self._ratio.of(process, interval, length, seen=waits, stands=stands),
            *report.levels(interval, process, source, waits=waits),
        ):
            self._emit(reading)

    def _ended(
        self, watch: Subscription, process: Process, threads: Threads
    ) -> frozenset[ThreadKey]:
        """Threads that are gone, and those of before the process's first thread ended."""
        if not threads:
            return frozenset()
        running = watch.threads(process)
        return frozenset(
            key
            for key in threads
            if key.tid not in running or key.born not in {0, self._born.get(key.pid)}
        )

    def _close(self, who: Who, process: Process | None, threads: Threads, now: Nanoseconds) -> None:
        interval = self._accounts.settle(who, threads, frozenset(threads), now)
        interval.leave_out(self._budget.unseen)
        self._accounts.close_process(who)
        self._forget(threads)
        source = self._steps_from(who, interval)
        for reading in report.counts(interval, process, source):
            self._emit(reading)
        self._source.forget(who)
        if isinstance(who, Process):
            self._rhythms.forget(who)
            self._ratio.forget(who)

    def _steps_from(self, who: Who, interval: Interval) -> int | None:
        """The mark that steps are counted from; None while it may be missed."""
        source = self._source.of(who, interval.steps)
        return None if source is None or self._budget.unseen & MARKED_BY[source] else source

    def _note(self, records: dict[Who, Threads]) -> None:
        for process in self._watch.processes if self._watch is not None else ():
            self._budget.note(process, records.get(process, {}))

    def _drain(self) -> None:
        """Take in the collectives that were issued."""
        whole = COLLECTIVES not in self._budget.unseen
        counts: Counter[tuple[Process | None, int]] = Counter()
        for record in self._ring.drain():
            found = Collective.decode(record)
            owner = self._owners.at(found.pid, found.time_ns)
            counts[owner, found.operation] += 1
            if self._settings.period and whole and owner and not self._source.known(owner):
                self._rhythms.add(owner, found)
        for (owner, operation), count in counts.items():
            self._emit(report.collectives(owner, operation, count, whole=whole))

    def _tell_periods(self, watch: Subscription) -> None:
        if not self._settings.period:
            return
        unmarked = [each for each in watch.processes if not self._source.known(each)]
        self._rhythms.search(unmarked)
        for process in unmarked:
            period = self._rhythms.period(process)
            for reading in report.period_levels(period, process) if period else ():
                self._emit(reading)

    def _read(self) -> dict[Who, Threads]:
        """The kernel's records by the process that they are of."""
        records: dict[Who, Threads] = {}
        if self._bpf is None:
            return records
        born = self._bpf.map("processes").items()
        self._born = {_PID.unpack(pid)[0]: _TIME.unpack(time_ns)[0] for pid, time_ns in born}
        self._owners.refresh(self._born)
        for raw, value in self._bpf.map("threads").items():
            key = ThreadKey.decode(raw)
            records.setdefault(self._who(key), {})[key] = ThreadState.decode(value)
        return records

    def _who(self, key: ThreadKey) -> Who:
        at = key.born or time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        return self._owners.of(key.pid, at) or (key.pid, key.born)

    def _forget(self, threads: Collection[ThreadKey]) -> None:
        if self._bpf is not None:
            self._budget.drop(threads)
            for key in threads:
                self._bpf.map("threads").delete(key.encode())


def pid_of(who: Who) -> int:
    """The pid of a process, seen or not."""
    return who.pid if isinstance(who, Process) else who[0]


def _nowhere(_: Reading) -> None:
    pass
