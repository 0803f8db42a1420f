"""The user's probes while they run: programs loaded, libraries followed, maps read."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from engine.readings import Gone, ProbeStatus, Produced, Watched
from probes.bpf.errors import UnavailableError
from probes.bpf.loader import ProgramType, load
from probes.bpf.trial import try_uprobe
from probes.budget.governed import Governed
from probes.custom.readings import counts, first, levels, own_labels, slow_event
from probes.custom.slots import Slot, plan
from probes.functions.files import near_names
from probes.functions.function import Function
from probes.functions.sites import FunctionSites
from probes.functions.totals import EXIT_PROGRAM, CallTotals
from probes.libraries.maps import LibraryNames
from probes.libraries.shared import Changes, subscribe

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import Process, Reading
    from probes.custom.settings import CustomSettings, ProbeConfig
    from probes.libraries.maps import FileKey

SOURCE = Path(__file__).with_name("program.bpf.c")


class Running:
    """Made by `start`, ended by `close`. One thread uses it. Raises UnavailableError."""

    def __init__(
        self, name: str, settings: CustomSettings, emit: Callable[[Reading], None]
    ) -> None:
        self._name = name
        self._emit = emit
        self._probes = settings.probes
        layout = plan(settings.probes)
        self._slots = {slot.name: slot for slot in layout.slots}
        self._programs = [
            f"{word}_{number}"
            for number in range(len(settings.probes))
            for word in ("enter", "leave", "count")
        ]
        kinds = {**dict.fromkeys(self._programs, ProgramType.UPROBE), **EXIT_PROGRAM}
        defines = {**settings.defines(), "SW_CALL_SLOTS": max(256, len(layout.slots))}
        self._bpf = load(SOURCE, kinds, defines)
        try:
            # Without a job there is nothing to attach to yet; that it will be refused shows now.
            try_uprobe(self._bpf, self._programs[0])
            for number, rule in enumerate(layout.rules):
                self._bpf.map("custom_rules").update(struct.pack("=I", number), rule)
            self._totals = CallTotals(self._bpf, tuple(self._slots))
        except UnavailableError:
            self._bpf.close()
            raise
        for slot in layout.slots:
            if slot.argument is None and slot.probe.slow.ms:
                self._totals.set_threshold(slot.name, slot.probe.slow.seconds)
        functions = [_function(number, each) for number, each in enumerate(settings.probes)]
        self._sites = FunctionSites(self._bpf, functions, max_files=settings.files_limit)
        self._calls = Governed(
            *(name, self._totals, self._sites, functions, settings.budget),
            function_of=lambda slot: self._slots[slot].probe.name,
        )
        self._libraries = {each.name: LibraryNames(each.library) for each in settings.probes}
        self._files: dict[FileKey, str] = {}
        self._last: dict[tuple[Process, str], int] = {}
        self._near: dict[str, tuple[str, ...]] = {}
        self._watch = subscribe(*dict.fromkeys(each.library for each in settings.probes))

    def poll(self) -> None:
        """Attach to libraries that appeared, let go of those that nobody maps, tell slow calls."""
        self._apply(self._watch.poll())
        self._sites.advance()
        self._calls.poll()
        for slow in self._totals.slow():
            self._emit(slow_event(self._slots[slow.name], slow, _comm(slow.process)))

    def produced(self) -> Produced:
        """Entries and exits, and slow calls, that the kernel saw."""
        return self._totals.produced(self._name, self._programs)

    def collect(self) -> None:
        """Emit what every process called since the last time."""
        callers = self._settle()
        changes = Changes()
        for pid in callers - {process.pid for process in self._watch.processes}:
            self._watch.look(pid, changes)  # forked from a watched one, so no linker told of it
        self._apply(changes)
        for (process, name), last in self._last.items():
            for level in levels(self._slots[name], process, last):
                self._emit(level)
        for reading in self._calls.readings("custom_calls", lambda s: own_labels(self._slots[s])):
            self._emit(reading)

    def status(self) -> ProbeStatus:
        """The present state."""
        if self._watch.hook_error is not None:
            return self._watch.hook_error.status(self._name, "degraded")
        if self._sites.problem:
            return self._sites.status(self._name)
        for each in self._probes:
            if not self._mapped(each):
                return self._absent(each)
        if self._totals.deaf or self._watch.deaf:
            detail = self._totals.deaf or self._watch.deaf
            return ProbeStatus(self._name, "degraded", "no_tracepoint", detail)
        probes, files = len(self._probes), self._sites.count
        detail = f"probes: {probes}, files: {files}, processes: {len(self._watch.processes)}"
        return ProbeStatus(self._name, "attached", "", detail)

    def close(self) -> None:
        """Detach."""
        self._watch.close()
        self._sites.close()
        self._bpf.close()

    def _apply(self, changes: Changes) -> None:
        for mapped in changes.appeared:
            self._files[mapped.key] = mapped.name
            self._sites.attach(mapped)
        for process in changes.joined:
            self._calls.join(process)
            self._emit(Watched(process, first(self._slots_of(process)), self._library_of(process)))
        if changes.gone:
            for process in changes.gone:
                self._calls.leave(process)
            self._settle()
            for process in changes.gone:
                self._last = {key: n for key, n in self._last.items() if key[0] != process}
                self._emit(Gone(process))
        for key in changes.vanished:
            self._files.pop(key, None)
            self._sites.detach(key)

    def _settle(self) -> set[int]:
        """Emit what was called; the pids of those who called."""
        look = self._calls.look()
        for each in look.calls:
            slot = self._slots[each.name]
            if slot.argument is not None and each.process is not None and each.total.calls:
                self._last[each.process, each.name] = each.total.last
            for reading in counts(slot, each.process, each.total):
                self._emit(reading)
        return {each.process.pid for each in look.calls if each.process is not None}

    def _mapped(self, probe: ProbeConfig) -> bool:
        return any(self._libraries[probe.name].match(name) for name in self._files.values())

    def _absent(self, probe: ProbeConfig) -> ProbeStatus:
        if probe.library not in self._near:
            self._near[probe.library] = near_names(probe.library)
        near = self._near[probe.library]
        mend = f"did you mean '{near[0]}'?" if near else "it is probed as soon as a process maps it"
        detail = f"{probe.name}: no running process maps a file '{probe.library}'"
        return ProbeStatus(self._name, "degraded", "library_absent", detail, mend)

    def _slots_of(self, process: Process) -> list[Slot]:
        names = [self._files.get(key, "") for key in self._watch.files(process)]
        return [slot for slot in self._slots.values()
                if any(map(self._libraries[slot.probe.name].match, names))]  # fmt: skip

    def _library_of(self, process: Process) -> str:
        names = sorted(self._files.get(key, "") for key in self._watch.files(process))
        return names[0] if names else ""


def _function(number: int, probe: ProbeConfig) -> Function:
    count = f"count_{number}"
    enter, leave = (f"enter_{number}", f"leave_{number}") if probe.timed else (count, "")
    return Function(
        *(probe.name, probe.library, probe.symbol, enter, leave), mark=count, most=probe.most
    )


def _comm(process: Process | None) -> str:
    stat = Procfs().stat(process.pid) if process is not None else None
    return stat.comm if stat is not None else ""
