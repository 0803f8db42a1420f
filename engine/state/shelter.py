"""A private folder in memory, where state.db lives for as long as the disk will not have it.

Its name follows from the path of state.db, so that what a killed agent left there is found again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - the folder in it belongs to this user, and is checked


def shelter_of(disk: Path) -> Path:
    """The folder for a state.db, which need not be there."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    known = hashlib.sha256(os.fsencode(os.path.realpath(disk))).hexdigest()[:16]
    return place / f"stallwatch-{os.geteuid()}-{known}"


def left_in_memory(disk: Path) -> Path | None:
    """The state.db that an agent left in memory; None where there is none that can be trusted."""
    left = shelter_of(disk) / disk.name
    try:
        return left if left.stat().st_size and _is_ours(left.parent) else None
    except OSError:
        return None


def present(disk: Path) -> Path:
    """Where a command of another process finds the state of the agent that runs, or ran last."""
    return left_in_memory(disk) or disk


def make_shelter(disk: Path) -> Path:
    """An empty one. Raises OSError where none can be made."""
    folder = shelter_of(disk)
    drop_shelter(folder)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        # Somebody else's: this one will not be found again after a kill.
        return Path(tempfile.mkdtemp(prefix="stallwatch-", dir=folder.parent))
    return folder


def drop_shelter(folder: Path) -> None:
    """Give the memory back."""
    if _is_ours(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Nobody else can have put anything there."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    return private and found.st_uid == os.geteuid()
