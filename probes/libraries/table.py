"""Who uses which library file, kept as processes come and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.readings import Process
    from probes.libraries.maps import FileKey


@dataclass(frozen=True, slots=True)
class Change:
    """Files that got their first user, and files that lost their last one."""

    appeared: tuple[FileKey, ...] = ()
    vanished: tuple[FileKey, ...] = ()


class UserTable:
    """Processes by file and files by process."""

    def __init__(self) -> None:
        self._files: dict[Process, frozenset[FileKey]] = {}
        self._sorted: tuple[Process, ...] | None = ()
        self._users: dict[FileKey, set[Process]] = {}

    @property
    def processes(self) -> tuple[Process, ...]:
        """Every process that uses a file, by pid."""
        # Asked for in every poll and changed seldom.
        if self._sorted is None:
            self._sorted = tuple(sorted(self._files))
        return self._sorted

    def files(self, process: Process) -> frozenset[FileKey]:
        """The files of a process, empty when it uses none."""
        return self._files.get(process, frozenset())

    def keys(self) -> frozenset[FileKey]:
        """Every file that has a user."""
        return frozenset(self._users)

    def users(self, key: FileKey) -> frozenset[Process]:
        """The processes that use a file."""
        return frozenset(self._users.get(key, ()))

    def update(self, process: Process, files: Iterable[FileKey]) -> Change:
        """A process uses exactly these files now; none: it is forgotten."""
        before, now = self.files(process), frozenset(files)
        if before == now:
            return Change()
        self._sorted = None
        appeared = tuple(key for key in sorted(now - before) if key not in self._users)
        for key in now - before:
            self._users.setdefault(key, set()).add(process)
        vanished = tuple(key for key in sorted(before - now) if self._leave(key, process))
        if now:
            self._files[process] = now
        else:
            self._files.pop(process, None)
        return Change(appeared, vanished)

    def remove(self, process: Process) -> Change:
        """A process ended."""
        return self.update(process, ())

    def _leave(self, key: FileKey, process: Process) -> bool:
        users = self._users[key]
        users.discard(process)
        if users:
            return False
        del self._users[key]
        return True
