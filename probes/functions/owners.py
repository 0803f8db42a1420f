"""Whose a hit was: from a pid and a time to a process, also where pids are used again."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from probes.libraries.maps import PROC, identify, threads

if TYPE_CHECKING:
    from pathlib import Path

    from engine.readings import Process

NANOSECONDS = 1_000_000_000


class Owners:
    """Processes by pid, those that ended since the last look included.

    A hit at a time belongs to the process of that pid that had started by then, the latest of
    them. `born`, the kernel's mark of a process, is forgotten there when the process ends. /proc is
    asked once for all hits of a pid that were before: each record of a ring is one.
    """

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._known: dict[int, list[Process]] = {}
        self._watched: set[Process] = set()
        self._gone: set[Process] = set()
        # When a pid was asked about, CLOCK_MONOTONIC nanoseconds.
        self._asked: dict[int, int] = {}
        self._of: dict[tuple[int, int], Process | None] = {}
        self._born: dict[int, int] = {}
        self._threads: dict[int, frozenset[int]] = {}
        self._tick = NANOSECONDS // os.sysconf("SC_CLK_TCK")

    def join(self, process: Process) -> None:
        """A process is watched: `leave` will tell its end."""
        self._watched.add(process)
        self._note(process)

    def _note(self, process: Process) -> None:
        known = self._known.setdefault(process.pid, [])
        if process not in known:
            known.append(process)
            known.sort()

    def leave(self, process: Process) -> None:
        """It ended; it is remembered until the next `forget`."""
        self._watched.discard(process)
        self._gone.add(process)

    def refresh(self, born: dict[int, int]) -> None:
        """A look begins: `born` by pid, as the kernel has it now."""
        self._born = born
        self._threads.clear()

    def forget(self) -> None:
        """A look ended."""
        for process in self._gone:
            if self._is_alive(process):
                continue  # it let go of its libraries, as one does that is about to end
            known = self._known.get(process.pid, [])
            if process in known:
                known.remove(process)
            if not known:
                self._known.pop(process.pid, None)
                self._asked.pop(process.pid, None)
        # Those that nobody watches are found out here, and kept for one more look.
        unwatched = {p for known in self._known.values() for p in known} - self._watched
        self._gone = {process for process in unwatched if not self._is_alive(process)}
        self._of = {key: owner for key, owner in self._of.items() if self.lives(*key)}

    def lives(self, pid: int, born: int) -> bool:
        """Whether the kernel still counts for this process, and it runs."""
        return self._born.get(pid) == born and bool(self._running(pid))

    def runs(self, pid: int, tid: int) -> bool:
        """Whether a process has a thread."""
        return tid in self._running(pid)

    def of(self, pid: int, born: int) -> Process | None:
        """The process with this mark; None when it was never seen."""
        key = (pid, born)
        if self._of.get(key) is None:
            self._of[key] = self.at(pid, born)
        return self._of[key]

    def at(self, pid: int, moment: int) -> Process | None:
        """The process that had a pid at a time, CLOCK_MONOTONIC nanoseconds."""
        if moment > self._asked.get(pid, -1):
            asked = time.monotonic_ns()
            now = identify(pid, self._proc)
            if now is not None:
                self._asked[pid] = asked
                self._note(now)
        # A start time is cut to ticks, so that it never lies after a hit of its process.
        started = [each for each in self._known.get(pid, []) if self._start(each) <= moment]
        return started[-1] if started else None

    def last(self, pid: int) -> Process | None:
        """The latest process of a pid that is known."""
        known = self._known.get(pid)
        return known[-1] if known else None

    def _start(self, process: Process) -> int:
        """Of CLOCK_MONOTONIC; /proc/PID/stat counts from boot, time asleep included (proc(5))."""
        asleep = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(
            time.CLOCK_MONOTONIC
        )
        return process.start_ticks * self._tick - asleep

    def _is_alive(self, process: Process) -> bool:
        return identify(process.pid, self._proc) == process

    def _running(self, pid: int) -> frozenset[int]:
        if pid not in self._threads:
            found = threads(pid, self._proc)
            # Until its parent has asked for its status, the main thread of one that ended is there.
            if found == {pid} and identify(pid, self._proc) is None:
                found = frozenset()
            self._threads[pid] = found
        return self._threads[pid]
