"""`steps_total`, `step_time_seconds`, `comm_wait_ratio` and friends of PyTorch DDP jobs.

Source: uprobes at entry and exits of c10d::Reducer::finalize_backward in every libtorch_cpu.so that
a process maps. See README.md for what they mean with Gloo and with NCCL.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from engine.config.model import NoSettings
from engine.readings import Gone, ProbeStatus, Produced, Watched
from probes.bpf.accounting import account
from probes.bpf.errors import UnavailableError
from probes.bpf.loader import BpfObject, ProgramType, load
from probes.bpf.trial import try_uprobe
from probes.libraries.shared import Changes, Subscription, subscribe
from probes.torch_step.accounts import COUNTERS, Accounts, ThreadState, decode_key, encode_key
from probes.torch_step.sites import Sites

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.readings import ProbeOptions, Process, Reading

LIBRARY = "libtorch_cpu.so"
FUNCTION = "c10d::Reducer::finalize_backward"
SOURCE = Path(__file__).with_name("program.bpf.c")
PROGRAMS = ("enter", "leave", "mark")


class TorchStepProbe:
    """See the module. One thread uses it."""

    name = "torch_step"
    Config: ClassVar[type[NoSettings]] = NoSettings

    def __init__(self) -> None:
        self._bpf: BpfObject | None = None
        self._watch: Subscription | None = None
        self._emit: Callable[[Reading], None] = _nowhere
        self._off = ProbeStatus(self.name, "off", "not_started")

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Load, and attach to every libtorch that is mapped now; `options` are not used."""
        del options
        self._emit = emit
        self._accounts = Accounts()
        try:
            self._bpf = load(SOURCE, dict.fromkeys(PROGRAMS, ProgramType.UPROBE))
            # Without a job there is nothing to attach to yet; that it will be refused shows now.
            try_uprobe(self._bpf, "mark")
        except UnavailableError as error:
            self.stop()
            self._off = error.status(self.name)
            return self._off
        self._sites = Sites(self._bpf, FUNCTION)
        self._watch = subscribe(LIBRARY)
        self.poll()
        return self.status()

    def poll(self) -> None:
        """Attach to libraries that appeared, let go of those that nobody maps."""
        if self._watch is not None:
            self._apply(self._watch, self._watch.poll())

    def produced(self) -> Produced:
        """Entries and exits that the kernel saw."""
        if self._bpf is None:
            return Produced(self.name)
        return account(self.name, self._bpf, ("",), (("", "map_full"),))

    def collect(self) -> None:
        """Emit what every watched process did since the last call."""
        watch = self._watch
        if watch is None:
            return
        # Before the map is read: a wait that begins in between is then zero, never negative.
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        threads = self._read()
        changes = Changes()
        for pid in threads.keys() - {process.pid for process in watch.processes}:
            watch.look(pid, changes)  # forked from a watched one, so no linker told of it
        self._apply(watch, changes)
        for process in watch.processes:
            self._settle(watch, process, threads.pop(process.pid, {}), now)
        for pid, orphans in threads.items():
            owner = watch.identify(pid)
            if owner is not None:  # it runs, though its maps may not be read
                self._settle(watch, owner, orphans, now)
            else:
                self._close(pid, watch.parent(pid), orphans, now)

    def status(self) -> ProbeStatus:
        """The present state."""
        watch = self._watch
        if watch is None:
            return self._off
        if watch.hook_error is not None:
            return watch.hook_error.status(self.name, "degraded")
        if self._sites.problem:
            return self._sites.status(self.name)
        if watch.deaf:
            detail = f"new processes of new containers are found late: {watch.deaf}"
            return ProbeStatus(self.name, "degraded", "no_tracepoint", detail)
        return ProbeStatus(self.name, "attached", "", self._detail(watch))

    def stop(self) -> None:
        """Detach."""
        for part in (self._bpf, self._watch):
            if part is not None:
                part.close()
        if self._bpf is not None:
            self._off = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")
        self._bpf = self._watch = None

    def _detail(self, watch: Subscription) -> str:
        count = len(watch.processes)
        detail = f"processes: {count}, files of {LIBRARY}: {self._sites.count}"
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
            self._emit(Gone(process))
        for process in changes.joined:
            self._accounts.open_process(process.pid, now)
            waits = self._sites.sees_waits(watch.files(process))
            self._emit(Watched(process, COUNTERS if waits else COUNTERS[:1], LIBRARY))
        for key in changes.vanished:
            self._sites.detach(key)

    def _settle(
        self, watch: Subscription, process: Process, threads: dict[int, ThreadState], now: int
    ) -> None:
        length = self._accounts.length(process.pid, now)
        ended = frozenset(threads.keys() - watch.threads(process)) if threads else frozenset()
        interval = self._accounts.settle(process.pid, threads, ended, now)
        self._forget(process.pid, ended)
        waits = self._sites.sees_waits(watch.files(process))
        levels = interval.levels(process, length, waits=waits)
        for reading in (*interval.readings(process), *levels):
            self._emit(reading)

    def _close(
        self, pid: int, process: Process | None, threads: dict[int, ThreadState], now: int
    ) -> None:
        interval = self._accounts.settle(pid, threads, frozenset(threads), now)
        self._accounts.close_process(pid)
        self._forget(pid, threads)
        for reading in interval.readings(process):
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
            for tid in tids:
                self._bpf.map("threads").delete(encode_key(pid, tid))


def _nowhere(_: Reading) -> None:
    pass
