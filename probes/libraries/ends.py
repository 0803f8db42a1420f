"""Hears of the end of processes without asking after each of them.

A pidfd (pidfd_open(2), Linux 5.3) becomes readable when the last thread of its process has ended.
Unlike a program on sched_process_exit it costs the other processes of the node nothing. Where there
is none (an older kernel, no descriptor left) the process is looked at in every poll.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
from typing import TYPE_CHECKING

from probes.libraries.maps import PROC, identify

if TYPE_CHECKING:
    from pathlib import Path

    from engine.readings import Process

# Of the descriptors that the agent may open, the share that watched processes may take: the others
# are for attachments, rings and the recording.
DESCRIPTOR_SHARE = 0.25


class Ends:
    """The processes whose end is of interest. One thread uses it."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._epoll = select.epoll()
        self._descriptors: dict[Process, int] = {}
        self._by_descriptor: dict[int, Process] = {}
        self._asked_after: set[Process] = set()
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = int(soft * DESCRIPTOR_SHARE) if proc == PROC else 0

    def add(self, process: Process) -> None:
        """Follow a process. One that has ended already is among the next `ended`."""
        if process in self._descriptors or process in self._asked_after:
            return
        if len(self._descriptors) < self._most:
            with contextlib.suppress(OSError, AttributeError):  # gone, too many, or an old kernel
                descriptor = os.pidfd_open(process.pid)
                self._descriptors[process] = descriptor
                self._by_descriptor[descriptor] = process
                self._epoll.register(descriptor, select.EPOLLIN)
                # Opened by number, so that it may be another's by now.
                if identify(process.pid, self._proc) == process:
                    return
                self.discard(process)
        self._asked_after.add(process)

    def discard(self, process: Process) -> None:
        """Follow it no longer."""
        self._asked_after.discard(process)
        descriptor = self._descriptors.pop(process, None)
        if descriptor is not None:
            del self._by_descriptor[descriptor]
            os.close(descriptor)  # which takes it out of the epoll set, too

    def ended(self) -> list[Process]:
        """Those that have ended since; they are followed no longer."""
        gone = [each for each in self._asked_after if identify(each.pid, self._proc) != each]
        if self._descriptors:
            found = self._epoll.poll(0, maxevents=len(self._descriptors))
            gone += [self._by_descriptor[descriptor] for descriptor, _ in found]
        for process in gone:
            self.discard(process)
        return sorted(gone)

    def close(self) -> None:
        """Give the descriptors back."""
        for process in list(self._descriptors):
            self.discard(process)
        self._epoll.close()
