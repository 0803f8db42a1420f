"""`nccl_*` and the communication waits of jobs that use NCCL.

Source: uprobes at the exported functions of libnccl.so, at those calls of libcudart and libcuda
that wait for the GPU, and, where a job has loaded a profiler plugin of NCCL, at its functions. See
README.md for what each figure means and how sure it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from probes.functions.probe import LibraryProbe
from probes.nccl.running import NcclRunning
from probes.nccl.settings import NcclSettings

if TYPE_CHECKING:
    from probes.functions.probe import Emit, Given


class NcclProbe(LibraryProbe):
    """See the module. One thread uses it."""

    name = "nccl"
    Config = NcclSettings

    def open(self, given: Given, emit: Emit) -> NcclRunning:
        """See `LibraryProbe`."""
        return NcclRunning(self.name, NcclSettings.model_validate(given), emit)
