"""Reads a small file of another process' root without being led out of it.

A path below /proc/PID/root may hold a symbolic link that the container made: followed as usual it
would lead to files of the node, and what is read ends up in labels. openat2(2) with RESOLVE_IN_ROOT
(Linux 5.6) keeps to that root; before it nothing is read.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OPENAT2 = 437  # the same on every architecture
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x02, 0x10
MAX_BYTES = 256

_libc = ctypes.CDLL(None, use_errno=True)


def read_inside(root: Path, path: str) -> str:
    """The first line of a regular file, at most 256 bytes; "" where there is none to be read.

    `path` is relative to `root`. The file is looked at before it is opened to be read: a pipe would
    block, and to open a device may do something.
    """
    with contextlib.suppress(OSError), _opened(os.fspath(root), os.O_DIRECTORY) as folder:
        how = struct.pack(
            "=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS
        )
        found = int(_libc.syscall(_OPENAT2, folder, path.encode(), how, len(how)))
        if found < 0:
            return ""
        try:
            if not stat.S_ISREG(os.fstat(found).st_mode):
                return ""
            with _opened(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK) as file:
                return _first_line(os.read(file, MAX_BYTES))
        finally:
            os.close(found)
    return ""


@contextlib.contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _first_line(text: bytes) -> str:
    return text.decode("utf-8", "replace").partition("\n")[0].strip()
