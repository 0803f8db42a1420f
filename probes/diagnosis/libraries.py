"""Findings about the libraries that processes map now, and whether we may look."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from probes.bpf import capabilities
from probes.cuda.calls import DRIVER, RUNTIME
from probes.diagnosis.finding import Finding
from probes.diagnosis.runtimes import LinkedRuntimes
from probes.libraries.maps import LibraryNames
from probes.mpi.functions import LIBRARY as MPI
from probes.nccl.functions import LIBRARY as NCCL
from probes.torch_step.functions import TORCH

if TYPE_CHECKING:
    from collections.abc import Iterator

# Layer: names of its libraries, as the probes ask for them.
LAYERS = {"PyTorch": (TORCH,), "CUDA": (RUNTIME, DRIVER), "NCCL": (NCCL,), "MPI": (MPI,)}


def findings(procfs: Procfs | None = None) -> Iterator[Finding]:
    """How many processes use each layer, and how many cannot be looked into."""
    procfs = procfs or Procfs()
    names = {layer: LibraryNames(*patterns) for layer, patterns in LAYERS.items()}
    every = LibraryNames(*(pattern for patterns in LAYERS.values() for pattern in patterns))
    counts: Counter[str] = Counter()
    closed = 0
    runtimes = LinkedRuntimes()
    pids = procfs.pids()
    for pid in pids:
        try:
            mapped = every.mapped_by(pid, procfs.root)
        except PermissionError:
            closed += 1
            continue
        except OSError:
            continue  # it has ended
        runtimes.look(pid, mapped, procfs)
        counts.update(
            layer for layer, own in names.items() if any(own.match(each.name) for each in mapped)
        )
    for layer, patterns in LAYERS.items():
        detail = f"{counts[layer]} of {len(pids)} processes map {' or '.join(patterns)}"
        yield Finding(layer, "ok", detail)
    yield from runtimes.findings()
    yield _closed(closed)


def _closed(count: int) -> Finding:
    subject = "other processes"
    if not count:
        return Finding(subject, "ok", "every process can be looked into")
    if "sys_ptrace" in capabilities.read_privileges().effective:
        # A security module's say, or another user namespace's.
        return Finding(subject, "ok", f"{count} cannot be looked into by anybody here")
    return Finding(subject, "degraded", f"{count} cannot be looked into", capabilities.MEND_OTHERS)
