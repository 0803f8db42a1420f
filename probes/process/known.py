"""Which process had a pid a moment ago: a dead one can no longer be asked when it began."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from probes.libraries.shared import subscribe

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import Process
    from probes.libraries.subscription import Subscription

# Whoever maps one of these may belong to a task.
LIBRARIES = ("libtorch_cpu.so", "libcudart", "libcuda.so", "libnccl.so", "libmpi", "libmpich")
# An end is read within half a second; a busy machine may take longer.
REMEMBERED_SECONDS = 60.0


class KnownProcesses:
    """Processes of tasks by pid, the dead ones for a minute. One thread uses it."""

    def __init__(
        self,
        watch: Callable[..., Subscription] = subscribe,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._libraries = watch(*LIBRARIES)
        self._clock = clock
        self._alive: dict[int, Process] = {}
        self._dead: dict[int, tuple[Process, float]] = {}

    def poll(self) -> None:
        """Hear who came and who went."""
        changes = self._libraries.poll()
        now = self._clock()
        for process in changes.gone:
            self._dead[process.pid] = (process, now + REMEMBERED_SECONDS)
            if self._alive.get(process.pid) == process:
                del self._alive[process.pid]
        for process in changes.joined:
            self._alive[process.pid] = process
        self._dead = {pid: entry for pid, entry in self._dead.items() if entry[1] > now}

    def candidates(self, pid: int) -> list[Process]:
        """Processes that have, or had, this pid; the newest first."""
        found = [self._alive[pid]] if pid in self._alive else []
        return found + ([self._dead[pid][0]] if pid in self._dead else [])

    def close(self) -> None:
        """Stop following."""
        self._libraries.close()
