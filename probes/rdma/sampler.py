"""Reads counters and holders in a thread of its own.

A read may wait for the device's firmware, for seconds when it is in trouble; the other probes must
not wait with it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from probes.rdma import sysfs
from probes.rdma.counters import growth
from probes.rdma.holders import Holders
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.readings import Process
    from probes.rdma.counters import Counter
    from probes.rdma.sysfs import Look, Sample


@dataclass(slots=True)
class Growth:
    """One counter since the last take."""

    device: str
    port: str
    counter: Counter
    delta: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """Everything since the last take: growth of each counter that exists, holders by device."""

    growth: tuple[Growth, ...] = ()
    holders: dict[str, frozenset[Process]] = field(default_factory=dict)
    last: Look = field(default_factory=sysfs.Look)


class Sampler:
    """Runs from `start` to `stop`; `look` may also be called directly."""

    def __init__(
        self, root: Path = sysfs.SYSFS, interval_seconds: float = 10.0, links_limit: int = 20_000
    ) -> None:
        self._root = root
        self._interval_seconds = interval_seconds
        self._holders = Holders(root, links_limit=links_limit)
        self._before: dict[tuple[str, str, Counter], int] = {}
        self._growth: dict[tuple[str, str, Counter], Growth] = {}
        self._holding: dict[str, frozenset[Process]] = {}
        self._last = sysfs.Look()
        self._asked: float | None = None
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin."""
        # A daemon: a read that never returns must not keep the agent from ending.
        threading.Thread(target=self._run, name="stallwatch-rdma", daemon=True).start()

    def stop(self) -> None:
        """End; does not wait for a read that hangs."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.look()
            self._stopped.wait(self._interval_seconds)

    def look(self) -> None:
        """Read once. A counter that is seen first, or again after it was gone, counts from now."""
        with self._lock:
            self._asked = time.monotonic()
        seen = sysfs.look(self._root)
        holding = {device: frozenset(who) for device, who in self._holders.look().items()}
        with self._lock:
            self._asked, self._last, self._holding = None, seen, holding
            self._take_in(seen.samples, set(seen.devices))

    def _take_in(self, samples: list[Sample], devices: set[str]) -> None:
        for sample in samples:
            key = (sample.device, sample.port, sample.counter)
            before = self._before.get(key, sample.value)
            self._before[key] = sample.value
            grown = self._growth.setdefault(key, Growth(*key))
            grown.delta += growth(before, sample.value)
        for key in [key for key in self._before if key[0] not in devices]:
            del self._before[key]

    def take(self) -> Taken:
        """What grew since the last call; a counter that did not grow is there with 0."""
        with self._lock:
            grown, self._growth = tuple(self._growth.values()), {}
            return Taken(grown, dict(self._holding), self._last)

    def unreadable_processes(self) -> int:
        """Processes whose open files are closed to the agent."""
        return self._holders.unreadable

    def silent_seconds(self, clock: Callable[[], float] = time.monotonic) -> float:
        """How long a read has been waiting for its answer; 0 when none is."""
        with self._lock:
            return 0.0 if self._asked is None else clock() - self._asked
