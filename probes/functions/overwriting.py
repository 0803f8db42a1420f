"""Takes the probes out of a file at once when somebody writes into it.

A library that is overwritten in place (`cp`, not `mv` or a package manager) keeps its inode, and
the kernel puts the breakpoints of the old content into every process that maps the new one. The
next poll notices within half a second; a program that is copied and run by one command is there
sooner. inotify(7) tells of the first write, the truncation by `cp` included. What is written
through a shared mapping, or by another node of a network file system, only the poll sees.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from typing import TYPE_CHECKING

from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from probes.bpf.attachment import Attachment

    Release = Callable[[Hashable, Sequence[Attachment]], None]

_LIBC = ctypes.CDLL(None)
IN_MODIFY, IN_Q_OVERFLOW = 0x2, 0x4000
# struct inotify_event: wd, mask, cookie, length of a name, which a watch of a file has not.
_EVENT = struct.Struct("=iIII")
BUFFER_BYTES = 1 << 16


@dataclass(slots=True)
class Guarded:
    """The probes in one open file. `written`: somebody wrote into it, and they were taken out."""

    watch: int
    release: Release
    written: bool = False
    held: dict[Hashable, list[Attachment]] = field(default_factory=dict)


class Overwriting:
    """One inotify instance and one thread for all files; both come with the first file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fd = -1
        self._files: dict[int, list[Guarded]] = {}

    def guard(self, fd: int, release: Release) -> Guarded | None:
        """Watch an open file; `release` takes its probes when it is written, in another thread.

        None where inotify has no room (`fs.inotify.max_user_instances`, `max_user_watches`).
        """
        with self._lock:
            if self._fd < 0 and not self._start():
                return None
            watch = _LIBC.inotify_add_watch(self._fd, f"/proc/self/fd/{fd}".encode(), IN_MODIFY)
            if watch < 0:
                return None
            guarded = Guarded(watch, release)
            self._files.setdefault(watch, []).append(guarded)
            return guarded

    def hold(self, guarded: Guarded, owner: Hashable, attachments: Sequence[Attachment]) -> None:
        """These were attached for somebody; into a file that was written they are not to be."""
        with self._lock:
            guarded.held[owner] = list(attachments)
            if guarded.written:
                self._release(guarded)

    def drop(self, guarded: Guarded, owner: Hashable) -> None:
        """They are let go of."""
        with self._lock:
            guarded.held.pop(owner, None)

    def leave(self, guarded: Guarded) -> None:
        """Watch the file no longer, unless others do."""
        with self._lock:
            others = self._files[guarded.watch]
            others.remove(guarded)
            if not others:
                del self._files[guarded.watch]
                _LIBC.inotify_rm_watch(self._fd, guarded.watch)

    def _start(self) -> bool:
        self._fd = _LIBC.inotify_init1(os.O_CLOEXEC)
        if self._fd < 0:
            return False
        threading.Thread(target=self._listen, name="overwriting", daemon=True).start()
        return True

    def _listen(self) -> None:
        while True:
            self.take_in(os.read(self._fd, BUFFER_BYTES))

    def take_in(self, events: bytes) -> None:
        """Take the probes out of what the kernel says was written."""
        at = 0
        while at < len(events):
            watch, mask, _, length = _EVENT.unpack_from(events, at)
            at += _EVENT.size + length
            if mask & IN_MODIFY:
                self._take_out([watch])
            elif mask & IN_Q_OVERFLOW:
                self._take_out(None)

    def _take_out(self, watches: Iterable[int] | None) -> None:
        """Of these files; of all where the kernel dropped events, as any may have been written."""
        with self._lock:
            for watch in self._files if watches is None else watches:
                for guarded in self._files.get(watch, ()):
                    guarded.written = True
                    self._release(guarded)

    def _release(self, guarded: Guarded) -> None:
        held, guarded.held = guarded.held, {}
        for owner, attachments in held.items():
            guarded.release(owner, attachments)


OVERWRITING = Overwriting()
