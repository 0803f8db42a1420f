"""`nccl_*` and the communication waits of jobs that use NCCL.

Source: uprobes at the exported functions of libnccl.so, at those calls of libcudart and libcuda
that wait for the GPU, and, where a job has loaded a profiler plugin of NCCL, at its functions. See
README.md for what each figure means and how sure it is.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from engine.readings import Count, Event, Gone, Level, ProbeStatus, Produced, Watched
from probes.bpf.errors import UnavailableError
from probes.bpf.loader import BpfObject, ProgramType, load
from probes.bpf.trial import try_uprobe
from probes.clock.wall import unix_ms
from probes.functions.owners import Owners
from probes.functions.sites import FunctionSites
from probes.libraries.shared import Changes, subscribe
from probes.nccl.accounts import COUNTERS, NANOSECONDS, Account, operation
from probes.nccl.budget import Budget
from probes.nccl.events import STREAM, readings
from probes.nccl.functions import DRIVER, FUNCTIONS, LIBRARY, RUNTIME
from probes.nccl.plugins import NAMES, Plugins, named_by_environment
from probes.nccl.records import LOST, CallRecord, Clock, EventRecord, Kind, layout
from probes.nccl.sequence import Sequences, publish
from probes.nccl.settings import NcclSettings
from probes.nccl.snapshot import Maps

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import ProbeOptions, Process, Reading
    from probes.bpf.events import EventReader
    from probes.libraries.maps import FileKey, Mapped
    from probes.libraries.shared import Subscription
    from probes.nccl.snapshot import Snapshot, View

SOURCE = Path(__file__).with_name("program.bpf.c")
PLUGIN_PROGRAMS = (
    "start_event_v3",
    "start_event_v4",
    "start_event_v5",
    "leave_start_event",
    "stop_event",
)
PROGRAMS = (
    tuple(
        dict.fromkeys(
            program
            for each in FUNCTIONS
            for program in (each.enter, each.leave, each.mark)
            if program
        )
    )
    + PLUGIN_PROGRAMS
)
STREAMS = ("", STREAM, "sequence")


class NcclProbe:
    """See the module. One thread uses it."""

    name = "nccl"
    Config: ClassVar[type[NcclSettings]] = NcclSettings

    def __init__(self) -> None:
        self._bpf: BpfObject | None = None
        self._watch: Subscription | None = None
        self._emit: Callable[[Reading], None] = _nowhere
        self._off = ProbeStatus(self.name, "off", "not_started")
        self._settings = NcclSettings()
        self._deaf = ""

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Load, and attach to every libnccl that is mapped now."""
        self._emit = emit
        known = {key: value for key, value in options.settings.items() if key != "enabled"}
        self._settings = NcclSettings.model_validate(known)
        kinds = dict.fromkeys(PROGRAMS, ProgramType.UPROBE)
        try:
            self._bpf = load(
                SOURCE,
                {**kinds, "on_exit": ProgramType.RAW_TRACEPOINT},
                self._settings.defines(),
            )
            # Without a job there is nothing to attach to yet; that it will be refused shows now.
            try_uprobe(self._bpf, "ignore")
            self._open(self._bpf)
        except UnavailableError as error:
            self.stop()
            self._off = error.status(self.name)
            return self._off
        self.poll()
        return self.status()

    def _open(self, bpf: BpfObject) -> None:
        self._events: EventReader = bpf.events("events", self._settings.event_pages)
        self._calls: EventReader | None = None
        self._sequences = Sequences(self._settings.sequence_length)
        if self._settings.sequence:
            self._calls = bpf.events("sequence", self._settings.sequence_pages)
            publish(self._sequences)
        try:
            bpf.attach_raw_tracepoint("on_exit", "sched_process_exit")
        except UnavailableError as error:
            # A pid that is used again within half a second is then taken for its predecessor.
            self._deaf = error.detail
        self._maps = Maps(bpf)
        self._owners = Owners()
        self._accounts: dict[int, Account] = {}
        self._sites = FunctionSites(bpf, FUNCTIONS, max_files=self._settings.max_files)
        self._plugins = Plugins(bpf)
        self._budget = Budget(self._sites, self._plugins, self._settings.budget, self._close_clocks)
        self._mapped: dict[FileKey, Mapped] = {}
        self._told: Counter[Process | None] = Counter()
        self._users: set[Process] = set()
        self._watch = subscribe(LIBRARY, RUNTIME, DRIVER, *NAMES)

    def poll(self) -> None:
        """Hand on events, attach to libraries that appeared, let go of those nobody maps."""
        if self._watch is not None:
            self._sites.advance()
            self._apply(self._watch, self._watch.poll())
            self._drain()
            self._budget.poll(self._add_up)

    def produced(self) -> Produced:
        """The kernel's counters."""
        if self._bpf is None:
            return Produced(self.name)
        produced = dict(zip(STREAMS, self._bpf.produced(), strict=True))
        if not self._settings.sequence:
            del produced["sequence"]
        lost = [
            ((STREAMS[max(0, place - 2)] if place > 2 else "", reason), count)
            for place, (reason, count) in enumerate(zip(LOST, self._bpf.lost(), strict=True))
        ]
        misses = sum(self._bpf.recursion_misses(program) for program in PROGRAMS)
        return Produced(
            self.name, tuple(produced.items()), (*lost, (("", "recursion_misses"), misses))
        )

    def collect(self) -> None:
        """Emit what every process did since the last call."""
        watch = self._watch
        if watch is None:
            return
        changes = Changes()
        users = {process.pid for process in watch.processes}
        for pid in self._maps.pids() - users:
            watch.look(pid, changes)  # forked, so no linker told of it
        self._apply(watch, changes)
        self._drain()
        # Before the maps are read: a wait that begins in between is then zero, never negative.
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        snapshot = self._maps.read()
        self._owners.refresh({v.process.tgid: born for born, v in snapshot.views.items()})
        for view in snapshot.views.values():
            self._advance(view)
        self._budget.step()
        for view in snapshot.views.values():
            self._settle(view, now)
        for level in self._budget.levels():
            self._emit(level)
        self._open_initialisations(snapshot, now)
        self._owners.forget()
        self._told.clear()

    def status(self) -> ProbeStatus:
        """The present state."""
        watch = self._watch
        if watch is None:
            return self._off
        if watch.hook_error is not None:
            return watch.hook_error.status(self.name, "degraded")
        if self._sites.problem:
            return self._sites.status(self.name)
        plugin = self._plugins.status(self.name)
        if plugin is not None:
            return plugin
        if watch.deaf or self._deaf:
            detail = f"new processes of new containers are found late: {watch.deaf or self._deaf}"
            return ProbeStatus(self.name, "degraded", "no_tracepoint", detail)
        detail = f"processes: {len(watch.processes)}, files: {self._sites.count}"
        detail += f", profiler plugins: {self._plugins.attached}"
        return ProbeStatus(self.name, "attached", "", detail)

    def stop(self) -> None:
        """Detach."""
        if self._watch is not None:
            self._watch.close()
            self._sites.close()
            self._plugins.close()
            publish(None)
        if self._bpf is not None:
            self._bpf.close()
            self._off = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")
        self._bpf = self._watch = None

    def _apply(self, watch: Subscription, changes: Changes) -> None:
        for mapped in changes.appeared:
            self._mapped[mapped.key] = mapped
            if mapped.name.startswith(NAMES):
                self._plugins.attach(mapped)
        for process in watch.processes:
            if self._uses_nccl(watch, process):
                self._join(watch, process)
        gone = [process for process in changes.gone if process in self._users]
        if gone:
            self._bury(gone)
        for key in changes.vanished:
            self._mapped.pop(key, None)
            self._sites.detach(key)
            self._plugins.detach(key)

    def _join(self, watch: Subscription, process: Process) -> None:
        """The runtime of CUDA only where NCCL is too: others would pay for traps for nothing."""
        for key in watch.files(process):
            mapped = self._mapped.get(key)
            if mapped is not None and not mapped.name.startswith(NAMES):
                self._sites.attach(mapped)
        if process not in self._users:
            self._users.add(process)
            self._owners.join(process)
            self._emit(Watched(process, COUNTERS, LIBRARY, watch.parent(process.pid)))

    def _uses_nccl(self, watch: Subscription, process: Process) -> bool:
        names = (self._mapped[key].name for key in watch.files(process) if key in self._mapped)
        return any(name.startswith(LIBRARY) for name in names)

    def _bury(self, gone: list[Process]) -> None:
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        snapshot = self._maps.read()
        self._owners.refresh({v.process.tgid: born for born, v in snapshot.views.items()})
        self._drain()
        ended = set(gone)
        for view in snapshot.views.values():
            owner = self._owners.at(view.process.tgid, view.process.born)
            if owner in ended:
                view.ended = True
                self._advance(view)
                self._settle(view, now)
        for process in gone:
            self._tell(process)
            self._budget.forget(process)
            self._users.discard(process)
            self._owners.leave(process)
            self._sequences.forget(process)
            self._emit(Gone(process))

    def _account(self, view: View) -> Account:
        born = view.process.born
        return self._accounts.setdefault(born, Account(settled=born))

    def _add_up(self) -> None:
        for view in self._maps.read().views.values():
            self._advance(view)

    def _advance(self, view: View) -> None:
        """Add what was called since to the totals that the budget keeps."""
        process = self._owners.at(view.process.tgid, view.process.born)
        deltas = self._account(view).advance(view, self._settings.communicators)
        for op, delta in deltas.items():
            if process is not None:
                self._budget.add(process, op, delta)
            else:
                for count in operation(None, op, delta):
                    self._emit(count)
        if process is not None:
            self._budget.weigh(process, view.process)

    def _tell(self, process: Process) -> None:
        for op, delta in self._budget.take(process):
            for count in operation(process, op, delta):
                self._emit(count)

    def _settle(self, view: View, now: int) -> None:
        process = self._owners.at(view.process.tgid, view.process.born)
        account = self._account(view)
        self._reap_threads(view, account)
        if process is not None:
            for told in account.rank(view, process):
                self._emit(told)
            self._tell(process)
        for count in account.settle(view, process):
            self._emit(count)
        known, kernels = self._budget.sees_waits, self._budget.sees_kernels
        for reading in account.waits(view, process, now, known=known, kernels=kernels):
            self._emit(reading)
        if view.ended:
            self._maps.forget(view)
            del self._accounts[view.process.born]
        elif process is not None:
            for level in account.levels(view, process, self._settings.communicators):
                self._emit(level)

    def _close_clocks(self) -> None:
        """Hooks were taken away: what is open now would never end."""
        for view in self._maps.read().views.values():
            self._account(view).abandon(view, *Clock)
            for kind in Clock:
                self._maps.stop_clock(view.process.born, kind)
            for place, record in view.threads.items():
                if record.wait_frame:
                    self._maps.forget_thread(*place)

    def _reap_threads(self, view: View, account: Account) -> None:
        """A thread that ended in a wait never leaves it."""
        if view.ended:
            return
        dead = [place for place in view.threads if not self._owners.runs(*place)]
        waiting = sum(bool(record.wait_frame) for record in view.threads.values())
        stuck = sum(bool(view.threads[place].wait_frame) for place in dead)
        for place in dead:
            self._maps.forget_thread(*place)
            del view.threads[place]
        if stuck:
            if waiting == stuck:
                account.abandon(view, Clock.WAITING, Clock.EXPOSED)
            self._maps.set_waiting(view.process.born, waiting - stuck)

    def _open_initialisations(self, snapshot: Snapshot, now: int) -> None:
        for view in snapshot.views.values():
            process = self._owners.at(view.process.tgid, view.process.born)
            since = view.open_initialisations(snapshot.pending)
            if process is not None and since:
                seconds = max(0, now - min(since)) / NANOSECONDS
                self._emit(Level("nccl_init_open_seconds", process, seconds))

    def _drain(self) -> None:
        made: set[int] = set()
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
                self._emit(reading)
            if record.kind == Kind.INIT and not record.result:
                made.add(record.pid)
        # With its first communicator NCCL has loaded its plugin.
        for pid in made:
            for mapped in named_by_environment(pid):
                self._plugins.attach(mapped)
        if self._calls is not None:
            self._drain_calls(self._calls)

    def _drain_calls(self, calls: EventReader) -> None:
        weights: Counter[Process | None] = Counter()
        for raw in calls.drain():
            record = CallRecord(*layout(CallRecord).unpack(raw[: layout(CallRecord).size]))
            process = self._owners.at(record.thread >> 32, record.time)
            weights[process] += 1
            if process is not None:
                self._sequences.add(process, record)
        for process, weight in weights.items():
            labels = (("op", "AllReduce"),)
            self._emit(Count("nccl_calls_total", process, 0.0, labels, weight, "sequence"))


def _nowhere(_: Reading) -> None:
    pass
