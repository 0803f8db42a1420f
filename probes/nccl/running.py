"""The probe while it runs: programs loaded, libraries and plugins followed, maps and rings read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.readings import Gone, ProbeStatus, Watched
from probes.bpf.accounting import account
from probes.bpf.errors import UnavailableError
from probes.bpf.loader import ProgramType, load
from probes.bpf.trial import try_uprobe
from probes.functions.sites import FunctionSites
from probes.libraries.shared import Changes, subscribe
from probes.nccl.accounts import COUNTERS
from probes.nccl.events import STREAM
from probes.nccl.functions import DRIVER, FUNCTIONS, LIBRARY, RUNTIME
from probes.nccl.plugins import NAMES, Plugins, named_by_environment
from probes.nccl.rings import SEQUENCE, STREAMS, Rings
from probes.nccl.settlement import Settlement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.readings import Process, Produced, Reading
    from probes.functions.probe import Emit
    from probes.libraries.maps import FileKey, Mapped
    from probes.nccl.settings import NcclSettings

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
            name for each in FUNCTIONS for name in (each.enter, each.leave, each.mark) if name
        )
    )
    + PLUGIN_PROGRAMS
)
# (stream, reason) of the counters in sw_lost.
LOSSES = (
    ("", "processes"),
    ("", "totals"),
    ("", "communicators"),
    (STREAM, "ring_full"),
    (SEQUENCE, "sequence_full"),
)


class NcclRunning:
    """See `LibraryProbe`. One thread uses it. Raises UnavailableError."""

    def __init__(self, name: str, settings: NcclSettings, emit: Emit) -> None:
        self._name = name
        self._settings = settings
        self._emit = emit
        kinds = dict.fromkeys(PROGRAMS, ProgramType.UPROBE)
        kinds["on_exit"] = ProgramType.RAW_TRACEPOINT
        self._bpf = load(SOURCE, kinds, settings.defines())
        self.sites = FunctionSites(self._bpf, FUNCTIONS, max_files=settings.max_files)
        self.plugins = Plugins(self._bpf)
        # Pids of processes whose environment names a plugin by a path of another name, by file.
        self._named: dict[FileKey, set[int]] = {}
        self.settlement = Settlement(self._bpf, self.sites, self.plugins, settings)
        self._owners = self.settlement.owners
        try:
            # Without a job there is nothing to attach to yet; that it will be refused shows now.
            try_uprobe(self._bpf, "ignore")
            self._rings = Rings(self._bpf, self._owners, settings)
        except UnavailableError:
            self._bpf.close()
            raise
        self._deaf = ""
        try:
            self._bpf.attach_raw_tracepoint("on_exit", "sched_process_exit")
        except UnavailableError as error:
            # A pid that is used again within half a second is then taken for its predecessor.
            self._deaf = error.detail
        self._mapped: dict[FileKey, Mapped] = {}
        self._users: set[Process] = set()
        self._revision = 0
        self._watch = subscribe(LIBRARY, RUNTIME, DRIVER, *NAMES)

    @property
    def pending(self) -> int:
        """Functions in files that are still to be attached."""
        return self.sites.pending

    def poll(self) -> None:
        """Hand on events, attach to libraries that appeared, let go of those nobody maps."""
        self.sites.advance()
        self.plugins.advance()
        self._apply(self._watch.poll())
        self._drain()
        self.settlement.poll()

    def produced(self) -> Produced:
        """The kernel's counters."""
        found = account(self._name, self._bpf, STREAMS, LOSSES)
        if self._settings.sequence:
            return found
        return replace(found, produced=tuple(e for e in found.produced if e[0] != SEQUENCE))

    def collect(self) -> None:
        """Emit what every process did since the last call."""
        changes = Changes()
        watched = {process.pid for process in self._watch.processes}
        for pid in self.settlement.maps.pids() - watched:
            self._watch.look(pid, changes)  # forked, so no linker told of it
        self._apply(changes)
        self._drain()
        self._tell(self.settlement.flush())
        self._rings.begin_flush()

    def status(self) -> ProbeStatus:
        """The present state."""
        watch = self._watch
        if watch.hook_error is not None:
            return watch.hook_error.status(self._name, "degraded")
        if self.sites.problem:
            return self.sites.status(self._name)
        plugin = self.plugins.status(self._name)
        if plugin is not None:
            return plugin
        if watch.deaf or self._deaf:
            detail = f"new processes of new containers are found late: {watch.deaf or self._deaf}"
            return ProbeStatus(self._name, "degraded", "no_tracepoint", detail)
        detail = f"processes: {len(watch.processes)}, files: {self.sites.count}"
        detail += f", profiler plugins: {self.plugins.attached}"
        return ProbeStatus(self._name, "attached", "", detail)

    def close(self) -> None:
        """Detach."""
        self._watch.close()
        self.sites.close()
        self.plugins.close()
        self._rings.close()
        self.settlement.close()
        self._bpf.close()

    def _apply(self, changes: Changes) -> None:
        for mapped in changes.appeared:
            self._mapped[mapped.key] = mapped
            if mapped.name.startswith(NAMES):
                self.plugins.attach(mapped)
        if changes.appeared or self._watch.revision != self._revision:
            self._revision = self._watch.revision
            for process in self._watch.processes:
                if self._uses_nccl(process):
                    self._join(process)
        gone = [process for process in changes.gone if process in self._users]
        if gone:
            self._bury(gone)
        for key in changes.vanished:
            self._mapped.pop(key, None)
            self.sites.detach(key)
            self.plugins.detach(key)

    def _join(self, process: Process) -> None:
        """The runtime of CUDA only where NCCL is too: others would pay for traps for nothing."""
        for key in self._watch.files(process):
            mapped = self._mapped.get(key)
            if mapped is not None and not mapped.name.startswith(NAMES):
                self.sites.attach(mapped)
        if process not in self._users:
            self._users.add(process)
            self._owners.join(process)
            self._emit(Watched(process, COUNTERS, LIBRARY, self._watch.parent(process.pid)))

    def _uses_nccl(self, process: Process) -> bool:
        files = self._watch.files(process)
        names = (self._mapped[key].name for key in files if key in self._mapped)
        return any(name.startswith(LIBRARY) for name in names)

    def _bury(self, gone: list[Process]) -> None:
        self._drain()
        self._tell(self.settlement.bury(gone))
        for process in gone:
            self._users.discard(process)
            self._rings.forget(process)
            self._leave_plugins(process.pid)
            self._emit(Gone(process))

    def _leave_plugins(self, pid: int) -> None:
        """Plugins of another name: nobody watches their files, so their users are counted here."""
        for key in [key for key, pids in self._named.items() if pid in pids]:
            self._named[key].discard(pid)
            if not self._named[key]:
                del self._named[key]
                self.plugins.detach(key)

    def _drain(self) -> None:
        self._tell(self._rings.drain())
        # With its first communicator NCCL has loaded its plugin.
        made, self._rings.made = self._rings.made, set()
        for pid in made:
            for mapped in named_by_environment(pid):
                self._named.setdefault(mapped.key, set()).add(pid)
                self.plugins.attach(mapped)

    def _tell(self, readings: Iterable[Reading]) -> None:
        for reading in readings:
            self._emit(reading)
