"""What CUDA's calls mean: counts, bytes, time, errors, and the memory that processes hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.readings import Produced, Watched
from probes.cuda.calls import RUNTIME
from probes.cuda.memory import STREAM, Memory
from probes.cuda.readings import CALLS, counts, labels, slow_event
from probes.functions.reporting import Report
from probes.functions.totals import REASONS, STREAMS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from engine.readings import Event, Pairs, Process, Reading
    from probes.functions.followed import Followed
    from probes.functions.totals import Look, SlowCall

# The counters that begin with a 0 as soon as a process maps CUDA.
FIRST = ("cudaStreamSynchronize", "cudaMemcpy", "cudaMemcpyAsync", "cudaLaunchKernel")
COUNTERS = tuple((CALLS, (("call", name),)) for name in FIRST)
MEMORY_REASONS = ("allocations_full", "map_full")


class CudaReport(Report):
    """`accounted`: the functions that allocate or free, by name. Raises UnavailableError."""

    metric = "cuda_calls"

    def __init__(self, followed: Followed, *, accounted: Collection[str]) -> None:
        self._followed = followed
        self._accounted = accounted
        owners = followed.totals.owners
        self._memory = Memory(
            followed.bpf.map("held"),
            followed.bpf.map("allocations"),
            lambda incarnation: owners.of(*incarnation),
            lambda incarnation: owners.lives(*incarnation),
        )

    def labels(self, slot: str) -> Pairs:
        """The call."""
        return labels(slot)

    def watched(self, process: Process) -> Watched:
        """It may be gone when it is asked whose it is; then its parent tells."""
        return Watched(process, COUNTERS, RUNTIME, self._followed.watch.parent(process.pid))

    def before_look(self) -> None:
        """Whose the accounts of memory are."""
        self._memory.meet()

    def counts(self, look: Look) -> Iterator[Reading]:
        """Calls, and what processes hold after them."""
        for each in look.calls:
            yield from counts(each.name, each.process, each.total)
        modes = self._followed.modes()
        whole = all(modes[name] == "full" for name in self._accounted)
        yield from self._memory.readings(whole=whole)

    def slow(self, call: SlowCall) -> Event:
        """Any call."""
        return slow_event(call, call.comm)

    def produced(self, told: Produced) -> Produced:
        """And changes of memory."""
        bpf = self._followed.bpf
        produced, lost = bpf.produced()[len(STREAMS) :], bpf.lost()[len(REASONS) :]
        memory = tuple(((STREAM, why), n) for why, n in zip(MEMORY_REASONS, lost, strict=True))
        return Produced(
            told.probe,
            (*told.produced, (STREAM, produced[0])),
            (*told.lost, *memory),
            told.maps,
        )
