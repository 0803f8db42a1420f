"""One probe's view of the shared watch: its own libraries, and each change of them once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from probes.libraries.maps import LibraryNames
from probes.libraries.table import UserTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.readings import Process
    from probes.bpf.errors import UnavailableError
    from probes.libraries.maps import FileKey, Mapped
    from probes.libraries.watch import LibraryWatch


@dataclass(slots=True)
class Changes:
    """What happened since the last poll.

    `appeared`: files that got their first user, with one living user each. `vanished`: files that
    nobody maps any more. `joined`, `gone`: processes that map a file of the subscription now, and
    that do not any more (they ended, let go of it or run another program). One that came and went
    between two polls is not told of.
    """

    appeared: list[Mapped] = field(default_factory=list)
    vanished: list[FileKey] = field(default_factory=list)
    joined: list[Process] = field(default_factory=list)
    gone: list[Process] = field(default_factory=list)


class Subscription:
    """See the module. Made by `subscribe`; closed by whoever asked for it, twice is fine."""

    def __init__(self, watch: LibraryWatch, names: tuple[str, ...]) -> None:
        self._watch = watch
        self.names = LibraryNames(*names)
        self._table = UserTable()
        self._told_files: set[FileKey] = set()
        self._told_processes: set[Process] = set()
        # Files without a user that we know of, and since which look.
        self._leaving: dict[FileKey, int] = {}
        self._dirty = False
        self.served = 0
        # Grows whenever some process maps other files than before.
        self.revision = 0

    @property
    def processes(self) -> tuple[Process, ...]:
        """The processes that map a watched library, as of the last poll or look, by pid."""
        return self._table.processes

    def files(self, process: Process) -> frozenset[FileKey]:
        """The watched libraries of a process."""
        return self._table.files(process)

    @property
    def unreadable(self) -> int:
        """Processes whose maps may not be read."""
        return self._watch.unreadable

    @property
    def hook_error(self) -> UnavailableError | None:
        """Why new libraries are found by scanning only; None when they are told of."""
        return self._watch.hook_error

    @property
    def deaf(self) -> str:
        """Why processes of new containers are found late, "" when they are not."""
        return self._watch.deaf

    def poll(self) -> Changes:
        """What changed; the first call tells of everything that is there already."""
        self._watch.serve(self)
        changes = Changes()
        self._collect(changes)
        return changes

    def look(self, pid: int, changes: Changes) -> tuple[Mapped, ...]:
        """Look at one process now and add what changed; returns the watched files it maps."""
        mapped = self._watch.look(pid)
        self._collect(changes)
        return tuple(each for each in mapped if self.names.match(each.name))

    def identify(self, pid: int) -> Process | None:
        """The process that has this pid now: remembered where it is watched, else read."""
        return self._watch.identify(pid)

    def parent(self, pid: int) -> Process | None:
        """The watched process that forked a pid, for counts of a child that is gone already.

        Such a child has its parent's environment, hence its task and rank. None when the pid was
        not told of, or ran a program of its own.
        """
        return self._watch.parent(pid)

    def threads(self, process: Process) -> frozenset[int]:
        """Its threads, empty when it is gone; read once per poll, whoever asks."""
        return self._watch.threads(process)

    def close(self) -> None:
        """Hear nothing more; the last one ends the watch."""
        self._watch.unsubscribe(self)

    def update(self, process: Process, mapped: Iterable[Mapped], look: int) -> bool:
        """For the watch: what a process maps now. True when a file may have lost its last user."""
        files = [each.key for each in mapped if self.names.match(each.name)]
        if self._table.files(process) == frozenset(files):
            return False
        self._dirty = True
        self.revision += 1
        change = self._table.update(process, files)
        for key in change.appeared:
            self._leaving.pop(key, None)
        self._leaving.update(dict.fromkeys(change.vanished, look))
        return bool(change.vanished)

    def _collect(self, changes: Changes) -> None:
        """Compare with what was told, so that what came and went in between cancels out."""
        if self._dirty:
            self._dirty = False
            self._compare(changes)
        for key, look in list(self._leaving.items()):
            if look <= self._watch.confirmed:
                del self._leaving[key]
                if key in self._told_files:
                    self._told_files.discard(key)
                    changes.vanished.append(key)

    def _compare(self, changes: Changes) -> None:
        processes = set(self._table.processes)
        changes.joined += sorted(processes - self._told_processes)
        changes.gone += sorted(self._told_processes - processes)
        self._told_processes = processes
        for key in sorted(self._table.keys() - self._told_files):
            self._told_files.add(key)
            changes.appeared.append(self._watch.example(key, self._table.users(key)))
