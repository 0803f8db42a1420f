"""One budget of a process for all probes that watch it.

Each governor tells what its functions would take of each process, and is told what it may take
when everybody's functions share the budget fairly (max-min, see shares.py). A governor steps once
a flush, so what it knows of the others is a flush old at most.

Where probes have different ratios, each shares out its own: what one may take grows with the
ratio that it is worked out for, so that all together stay within the greatest.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from probes.budget.shares import share_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.readings import Process


class Pool:
    """What everybody would take, by owner, process and function. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: dict[object, dict[Process, dict[str, float]]] = {}

    def tell(self, owner: object, wanted: dict[Process, dict[str, float]]) -> None:
        """What an owner's functions would take if they were watched all the time; replaces."""
        with self._lock:
            self._wanted[owner] = wanted

    def allowed(
        self, owner: object, process: Process, own: Mapping[str, float], ratio: float
    ) -> dict[str, float]:
        """How much of a process each of the owner's functions may take."""
        with self._lock:
            wanted = {
                (other, name): share
                for other, by_process in self._wanted.items()
                if other is not owner
                for name, share in by_process.get(process, {}).items()
            }
        wanted.update(((owner, name), share) for name, share in own.items())
        allowed = share_out(ratio, wanted)
        return {name: allowed[owner, name] for name in own}

    def forget(self, owner: object, process: Process) -> None:
        """The process has ended."""
        with self._lock:
            self._wanted.get(owner, {}).pop(process, None)

    def leave(self, owner: object) -> None:
        """The owner watches nothing any more."""
        with self._lock:
            self._wanted.pop(owner, None)


AGENT = Pool()
"""Of all probes of this agent."""
