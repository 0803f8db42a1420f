"""One writer for a recording folder: an flock on `lock`, which a kill -9 releases too."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from engine.dataset.errors import DataError

NAME = "lock"


class FolderLockedError(DataError):
    """Another process records into the folder."""


class FolderLock:
    """Held while it lives. Raises FolderLockedError if another process holds it."""

    def __init__(self, folder: str) -> None:
        path = str(Path(folder, NAME))
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise FolderLockedError(
                folder,
                f"another agent (pid {holder or 'unknown'}) is recording into this folder",
                "stop it, or record into another folder (--out, or state_dir in stallwatch.yaml)",
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another process have the folder."""
        os.close(self._descriptor)
