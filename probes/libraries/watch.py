"""Follows which processes map the libraries of interest.

One scan of /proc at start; afterwards only processes that the hook names are looked at, and a scan
of everything when the hook lost some, has no BPF, or ten minutes passed (forked processes touch no
linker; linkers of containers that are gone are let go).
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from probes.libraries.maps import PROC, LibraryNames, Mapped, identify
from probes.libraries.table import UserTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.readings import Process
    from probes.libraries.hook import Hook
    from probes.libraries.maps import FileKey

LINKERS = ("ld-linux", "ld-musl", "ld-2.", "ld64.so", "ld.so")
# Reading maps takes 0.1 ms for most processes and 2 ms for PyTorch, so one poll stays below a few
# per cent of a core even in a storm of container starts; the rest waits for the next poll.
MAX_LOOKS_PER_POLL = 200
MAX_PENDING = 8192
SCAN_SECONDS = 600.0
SCAN_SECONDS_WITHOUT_HOOK = 30.0
# A process whose linker was not listened to when it started is looked at in every poll this long.
ACQUAINTANCE_SECONDS = 20.0


@dataclass(slots=True)
class Changes:
    """What one poll found. `appeared` are files that got their first user, one user each."""

    appeared: list[Mapped] = field(default_factory=list)
    vanished: list[FileKey] = field(default_factory=list)
    joined: list[Process] = field(default_factory=list)
    gone: list[Process] = field(default_factory=list)


class LibraryWatch:
    """Who maps files whose names begin with one of `prefixes`. One thread uses it."""

    def __init__(
        self,
        *prefixes: str,
        hook: Hook | None,
        proc: Path = PROC,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = LibraryNames(*prefixes, *LINKERS)
        self._hook = hook
        self._proc = proc
        self._clock = clock
        self._table = UserTable()
        self._pending: dict[int, None] = {}
        self._new_linker: dict[int, float] = {}
        self._next_scan = 0.0
        self._known: dict[int, Process] = {}
        self.unreadable = 0

    @property
    def processes(self) -> tuple[Process, ...]:
        """The processes that map a watched library."""
        return self._table.processes

    def files(self, process: Process) -> frozenset[FileKey]:
        """The watched libraries of a process."""
        return self._table.files(process)

    def poll(self) -> Changes:
        """Drain the hook, look at what it named, notice ends. The first call scans /proc."""
        changes = Changes()
        self._reap(changes)
        now = self._clock()
        lost = False
        if self._hook is not None:
            pids, lost = self._hook.drain()
            self._pending.update(dict.fromkeys(pids))
        if lost or now >= self._next_scan or len(self._pending) > MAX_PENDING:
            self._scan(changes)
        else:
            self._look_at_pending(now, changes)
            if changes.vanished:
                # A forked process maps it too and touched no linker: see before letting go.
                self._scan(changes)
        kept = {key for key in changes.vanished if self._table.has(key)}
        changes.vanished = [key for key in changes.vanished if key not in kept]
        changes.appeared = [each for each in changes.appeared if each.key not in kept]
        return changes

    def _look_at_pending(self, now: float, changes: Changes) -> None:
        self._new_linker = {pid: until for pid, until in self._new_linker.items() if until > now}
        self._pending.update(dict.fromkeys(self._new_linker))
        for pid in list(self._pending)[:MAX_LOOKS_PER_POLL]:
            del self._pending[pid]
            self.look(pid, changes)

    def look(self, pid: int, changes: Changes) -> tuple[Mapped, ...]:
        """Look at one process now; returns what it maps, linkers included."""
        process = identify(pid, self._proc)
        before = self._known.get(pid)
        if before is not None and before != process:
            self._end(before, changes)
        if process is None:
            return ()
        try:
            mapped = self._names.mapped_by(pid, self._proc)
        except PermissionError:
            self.unreadable += 1
            return ()
        except OSError:
            return ()
        libraries = [each for each in mapped if not each.name.startswith(LINKERS)]
        self._listen([each for each in mapped if each.name.startswith(LINKERS)])
        self._update(process, libraries, changes)
        return mapped

    def _update(self, process: Process, libraries: list[Mapped], changes: Changes) -> None:
        if libraries and process.pid not in self._known:
            self._known[process.pid] = process
            changes.joined.append(process)
        change = self._table.update(process, (each.key for each in libraries))
        changes.appeared += [each for each in libraries if each.key in change.appeared]
        changes.vanished += change.vanished
        if not libraries and self._known.pop(process.pid, None) is not None:
            changes.gone.append(process)  # it ran exec, or unloaded the library

    def _listen(self, linkers: list[Mapped]) -> None:
        for linker in linkers:
            if self._hook is not None and self._hook.add(linker):
                self._new_linker[linker.pid] = self._clock() + ACQUAINTANCE_SECONDS

    def _scan(self, changes: Changes) -> None:
        every = SCAN_SECONDS if self._hook is not None else SCAN_SECONDS_WITHOUT_HOOK
        self._next_scan = self._clock() + every
        self._pending.clear()
        self.unreadable = 0
        linkers: set[FileKey] = set()
        for pid in Procfs(self._proc).pids():
            mapped = self.look(pid, changes)
            linkers.update(each.key for each in mapped if each.name.startswith(LINKERS))
        if self._hook is not None:
            self._hook.keep_only(linkers)

    def _reap(self, changes: Changes) -> None:
        for process in list(self._known.values()):
            if identify(process.pid, self._proc) != process:
                self._end(process, changes)

    def _end(self, process: Process, changes: Changes) -> None:
        self._known.pop(process.pid, None)
        changes.gone.append(process)
        changes.vanished += self._table.remove(process).vanished
        with contextlib.suppress(KeyError):
            del self._new_linker[process.pid]
