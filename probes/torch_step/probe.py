"""`steps_total`, `step_time_seconds`, `comm_wait_ratio` and friends of PyTorch jobs.

Source: uprobes on what libtorch_cpu.so exports: the end of DDP's backward pass, c10d's waits,
backward passes, and the named ranges that optimizers open. See README.md for what they mean with
Gloo and with NCCL, and for the marker that any other job may call.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from engine.readings import Gone, ProbeStatus, Produced, Watched
from probes.bpf.accounting import account
from probes.bpf.errors import UnavailableError
from probes.bpf.loader import BpfObject, ProgramType, load
from probes.bpf.trial import try_uprobe
from probes.functions.sites import FunctionSites
from probes.libraries.shared import Changes, Subscription, subscribe
from probes.torch_step import report
from probes.torch_step.accounts import MARKED_BY, WAITED_BY, Accounts
from probes.torch_step.budget import Budget
from probes.torch_step.collectives import Rhythms
from probes.torch_step.functions import FINALIZE, TORCH, functions, members
from probes.torch_step.settings import StepSettings
from probes.torch_step.thread import COLLECTIVES, Collective, ThreadState, decode_key, encode_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.readings import ProbeOptions, Process, Reading
    from probes.bpf.events import EventReader
    from probes.torch_step.accounts import Interval

SOURCE = Path(__file__).with_name("program.bpf.c")
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
        self._rhythms = Rhythms(self._settings.period_window)
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
        return load(SOURCE, dict.fromkeys(sorted(self._programs), ProgramType.UPROBE), defines)

    def poll(self) -> None:
        """Attach to libraries that appeared, let go of those that nobody maps."""
        if self._watch is not None:
            self._sites.advance()
            self._apply(self._watch, self._watch.poll())
            self._drain(self._watch)
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
        self._drain(watch)
        # Before the map is read: a wait that begins in between is then zero, never negative.
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        threads = self._read()
        changes = Changes()
        for pid in threads.keys() - {process.pid for process in watch.processes}:
            watch.look(pid, changes)  # forked from a watched one, so no linker told of it
        self._apply(watch, changes)
        for process in changes.gone:
            threads.pop(process.pid, None)  # counted already
        self._note(threads)
        self._budget.step()
        for process in watch.processes:
            self._settle(watch, process, threads.pop(process.pid, {}), now)
        for pid, orphans in threads.items():
            owner = watch.identify(pid)
            if owner is not None:  # it runs, though its maps may not be read
                self._settle(watch, owner, orphans, now)
            else:
                self._close(pid, watch.parent(pid), orphans, now)
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
        if self._budget.let_go:
            groups = ", ".join(sorted(self._budget.let_go))
            detail = f"not watched, as it would cost a process too much: {groups}"
            mend = "raise probes.torch_step.budget.ratio, or bear it: the rest is watched"
            return ProbeStatus(self.name, "degraded", "over_budget", detail, mend)
        if watch.deaf:
            detail = f"new processes of new containers are found late: {watch.deaf}"
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
        threads = self._read() if changes.gone else {}
        for process in changes.gone:
            self._close(process.pid, process, threads.get(process.pid, {}), now)
            self._budget.forget(process)
            self._emit(Gone(process))
        for process in changes.joined:
            self._accounts.open_process(process.pid, now)
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
        self, watch: Subscription, process: Process, threads: dict[int, ThreadState], now: int
    ) -> None:
        length = self._accounts.length(process.pid, now)
        ended = frozenset(threads.keys() - watch.threads(process)) if threads else frozenset()
        interval = self._accounts.settle(process.pid, threads, ended, now)
        interval.leave_out(self._budget.unseen)
        self._forget(process.pid, ended)
        source = self._steps_from(process.pid, interval)
        waits = self._sees_waits(watch, process)
        for reading in (
            *report.counts(interval, process, source),
            *report.levels(interval, process, length, source, waits=waits),
        ):
            self._emit(reading)

    def _close(
        self, pid: int, process: Process | None, threads: dict[int, ThreadState], now: int
    ) -> None:
        interval = self._accounts.settle(pid, threads, frozenset(threads), now)
        interval.leave_out(self._budget.unseen)
        self._accounts.close_process(pid)
        self._forget(pid, threads)
        source = self._steps_from(pid, interval)
        for reading in report.counts(interval, process, source):
            self._emit(reading)
        self._source.forget(pid)
        self._rhythms.forget(pid)

    def _steps_from(self, pid: int, interval: Interval) -> int | None:
        """The mark that steps are counted from; None while it may be missed."""
        source = self._source.of(pid, interval.steps)
        return None if source is None or self._budget.unseen & MARKED_BY[source] else source

    def _note(self, threads: dict[int, dict[int, ThreadState]]) -> None:
        for process in self._watch.processes if self._watch is not None else ():
            self._budget.note(process, threads.get(process.pid, {}))

    def _drain(self, watch: Subscription) -> None:
        """Take in the collectives that were issued."""
        found = [Collective.decode(record) for record in self._ring.drain()]
        whole = COLLECTIVES not in self._budget.unseen
        if self._settings.period and whole:
            self._rhythms.add(each for each in found if not self._source.known(each.pid))
        owners = {process.pid: process for process in watch.processes}
        for (pid, operation), count in Counter((c.pid, c.operation) for c in found).items():
            owner = owners.get(pid) or watch.identify(pid)
            self._emit(report.collectives(owner, operation, count, whole=whole))

    def _tell_periods(self, watch: Subscription) -> None:
        if not self._settings.period:
            return
        unmarked = [each for each in watch.processes if not self._source.known(each.pid)]
        self._rhythms.search(unmarked)
        for process in unmarked:
            period = self._rhythms.period(process)
            for reading in report.period_levels(period, process) if period else ():
                self._emit(reading)

    def _read(self) -> dict[int, dict[int, ThreadState]]:
        threads: dict[int, dict[int, ThreadState]] = {}
        if self._bpf is None:
            return threads
        for key, value in self._bpf.map("threads").items():
            pid, tid = decode_key(key)
            threads.setdefault(pid, {})[tid] = ThreadState.decode(value)
        return threads

    def _forget(self, pid: int, tids: Iterable[int]) -> None:
        if self._bpf is not None:
            self._budget.drop(pid, tids)
            for tid in tids:
                self._bpf.map("threads").delete(encode_key(pid, tid))


def _nowhere(_: Reading) -> None:
    pass
