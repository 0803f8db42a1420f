"""One agent for a state: flocks that a kill -9 releases too.

There are two. The one beside state.db holds for every container and user that sees the folder. The
one in memory has a name that follows from the path, so that it holds where the disk cannot be
written, or the folder is deleted under the agent that has it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from engine.dataset.errors import DataError
from engine.state.shelter import shelter_of

if TYPE_CHECKING:
    from pathlib import Path

LOGGER = logging.getLogger(__name__)
NAME = "state.lock"


class StateLockedError(DataError):
    """Another agent has the state."""


class StateLock:
    """Held while it lives, or until `release`. Raises StateLockedError if another agent has it.

    `disk`: the path of state.db, whose folder is made. What refuses a lock is passed over as long
    as the other one can be had; where none can, that is logged.
    """

    def __init__(self, disk: Path) -> None:
        in_memory = _in_memory(disk)
        held: list[int] = []
        try:
            for place, only_ours in ((in_memory, True), (disk.with_name(NAME), False)):
                with suppress(OSError):
                    held.append(_locked(place, disk.parent, only_ours=only_ours))
        except StateLockedError:
            _let_go(held, None, os.getpid())
            raise
        if not held:
            LOGGER.warning("%s: no lock can be had that keeps another agent out", disk.parent)
        self._finalizer = weakref.finalize(self, _let_go, held, in_memory, os.getpid())

    def release(self) -> None:
        """Let another agent have the state."""
        self._finalizer()


def _in_memory(disk: Path) -> Path:
    shelter = shelter_of(disk)
    return shelter.with_name(f"{shelter.name}.lock")


def _locked(path: Path, folder: Path, *, only_ours: bool) -> int:
    """A descriptor that has the lock. Raises OSError where there can be none."""
    while True:
        descriptor = _opened(path, only_ours=only_ours)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise StateLockedError(
                str(folder),
                f"another agent (pid {holder or 'unknown'}) has its state here",
                "stop it, or start this one elsewhere (--state, state_dir in stallwatch.yaml)",
            ) from None
        except OSError:
            os.close(descriptor)
            raise
        if _is_at(descriptor, path):
            break
        # Whoever had it has removed it in between.
        os.close(descriptor)
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _opened(path: Path, *, only_ours: bool) -> int:
    """`only_ours`: others can write into the folder, so what is theirs is refused."""
    if not only_ours:
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        # On a disk that is read-only by now there may be one from better days.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or (only_ours and found.st_uid != os.geteuid()):
        os.close(descriptor)
        raise PermissionError(path)
    return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _let_go(held: list[int], in_memory: Path | None, pid: int) -> None:
    """Only of the process that took them; a fork has copies. Memory is given back."""
    if os.getpid() != pid:
        return
    for descriptor in held:
        with suppress(OSError):
            if in_memory is not None and _is_at(descriptor, in_memory):
                in_memory.unlink()
        os.close(descriptor)
