"""One clock for all probes: which of the watched functions each CPU is in, 99 times a second.

It runs only while something is watched, and says what it costs.
"""

from __future__ import annotations

import logging
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from engine.readings import Level
from probes.bpf.errors import UnavailableError
from probes.bpf.loader import BpfObject, ProgramType, load
from probes.bpf.maps import sum_of_cpus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.readings import Process
    from probes.sampling.addresses import Region

LOG = logging.getLogger(__name__)
SOURCE = Path(__file__).with_name("program.bpf.c")
HERTZ = 99
# As in program.bpf.c.
MAX_REGIONS, MAX_SLOTS = 16, 4096
_REGION = struct.Struct("=QQQ")


class Sampler:
    """Thread-safe. The first that asks loads it; the last that is let go closes it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._bpf: BpfObject | None = None
        self._refused: UnavailableError | None = None
        self._free: list[int] = []
        # By process, the slot of all its samples, and by (owner, function) its slot and regions.
        self._all: dict[Process, int] = {}
        self._parts: dict[Process, dict[object, tuple[int, tuple[Region, ...]]]] = {}

    def available(self) -> bool:
        """Whether there is such a clock; tried once."""
        with self._lock:
            if self._bpf is None and self._refused is None:
                self._open()
            return self._refused is None

    def watch(self, process: Process, key: object, regions: Sequence[Region]) -> bool:
        """Count samples in these; False where there is no room, no clock, or nothing to watch."""
        with self._lock:
            if not regions or not self.available():
                return False
            parts = self._parts.get(process, {})
            held = sum(len(own) for _, own in parts.values())
            slots = 1 if process in self._all else 2
            if held + len(regions) > MAX_REGIONS or len(self._free) < slots:
                return False
            own, slot = self._all.get(process) or self._free.pop(), self._free.pop()
            changed = {**parts, key: (slot, tuple(regions))}
            if not self._write(process, own, changed):
                self._free += [slot] if process in self._all else [slot, own]
                return False
            self._all[process], self._parts[process] = own, changed
            return True

    def counts(self, process: Process, key: object) -> tuple[int, int]:
        """(in these regions, in all) samples of a process, ever growing; for differences."""
        with self._lock:
            part = self._parts.get(process, {}).get(key)
            return (0, 0) if part is None else (self._read(part[0]), self._read(self._all[process]))

    def forget(self, process: Process, key: object) -> None:
        """No longer count for this key."""
        with self._lock:
            parts = self._parts.get(process, {})
            part = parts.pop(key, None)
            if part is None or self._bpf is None:
                return
            self._free.append(part[0])
            own = self._all[process]
            if not parts:
                self._free.append(self._all.pop(process))
                del self._parts[process]
            if any(each.pid == process.pid and each != process for each in self._all):
                return  # the pid is another's by now, and so is what the kernel has of it
            if parts:
                self._write(process, own, parts)
            else:
                self._bpf.map("watched").delete(struct.pack("=I", process.pid))
            self.rest()

    def rest(self) -> None:
        """Close the clock, unless something is watched."""
        with self._lock:
            if not self._parts and self._bpf is not None:
                self._bpf.close()
                self._bpf = None

    def cores(self) -> float:
        """What it takes of each CPU: its program's own time, without the interrupt's."""
        with self._lock:
            if self._bpf is None:
                return 0.0
            (samples,) = self._bpf.produced()
            (took,) = self._bpf.map("took").sums()
            return HERTZ * took / 1e9 / samples if samples else 0.0

    def levels(self) -> Iterator[Level]:
        """What it takes, or why it cannot run; nothing before it was asked for."""
        with self._lock:
            if self._refused is not None:
                labels = (("reason", self._refused.reason),)
                yield Level("stallwatch_sampler_up", None, 0.0, labels)
            elif self._bpf is not None:
                yield Level("stallwatch_sampler_up", None, 1.0)
                yield Level("stallwatch_sampler_overhead_ratio", None, self.cores())

    def _open(self) -> None:
        try:
            self._bpf = load(
                SOURCE, {"on_sample": ProgramType.PERF_EVENT}, {"MAX_SLOTS": MAX_SLOTS}
            )
            self._bpf.attach_clock("on_sample", HERTZ)
        except UnavailableError as error:
            LOG.warning("functions that are too hot cannot be sampled: %s", error)
            self._refused = error
            if self._bpf is not None:
                self._bpf.close()
                self._bpf = None
            return
        self._free = list(range(MAX_SLOTS - 1, 0, -1))  # 0: none

    def _read(self, slot: int) -> int:
        if self._bpf is None:
            return 0
        return sum_of_cpus(self._bpf.map("samples").lookup(struct.pack("=I", slot)) or b"")

    def _write(
        self, process: Process, own: int, parts: Mapping[object, tuple[int, Sequence[Region]]]
    ) -> bool:
        if self._bpf is None:
            return False
        packed = [
            _REGION.pack(region.start, region.size, slot)
            for slot, held in parts.values()
            for region in held
        ]
        record = struct.pack("=Q", own) + b"".join(packed)
        record += bytes(_REGION.size * (MAX_REGIONS - len(packed)))
        try:
            self._bpf.map("watched").update(struct.pack("=I", process.pid), record)
        except OSError:  # more processes than it holds
            return False
        return True


AGENT = Sampler()
"""Of all probes of this agent."""
