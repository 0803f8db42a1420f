"""`cuda_calls_total`, `cuda_call_seconds`, `cuda_bytes_total`, `cuda_errors_total`,
`cuda_memory_bytes`, and an event `cuda_slow_call` for each call that took long.

Source: uprobes at entries and exits of the functions of calls.py in every libcudart and libcuda
that a process maps. See README.md for what each figure means and does not mean.
"""  # noqa: D205 - one sentence

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from probes.cuda.calls import DRIVER, RUNTIME
from probes.cuda.functions import chosen, defines, function, function_name, slot_names
from probes.cuda.report import CudaReport
from probes.cuda.settings import CudaSettings
from probes.functions.followed import Description
from probes.functions.probe import LibraryProbe
from probes.functions.reporting import Reporting

if TYPE_CHECKING:
    from probes.functions.probe import Emit, Given

SOURCE = Path(__file__).with_name("program.bpf.c")


class CudaProbe(LibraryProbe):
    """See the module. One thread uses it."""

    name = "cuda"
    Config = CudaSettings

    def open(self, given: Given, emit: Emit) -> Reporting:
        """See `LibraryProbe`."""
        settings = CudaSettings.model_validate(given)
        calls, slow = chosen(settings), settings.slow_call
        description = Description(
            *(SOURCE, [function(call) for call in calls], slot_names(), settings.budget),
            function_of=function_name,
            defines={**defines(), **settings.defines()},
            thresholds=dict.fromkeys(slot_names(), slow.seconds) if slow.ms else {},
            tracepoints={"on_exec": "sched_process_exec"},
            libraries=(RUNTIME, DRIVER),
            files_limit=settings.files_limit,
        )
        accounted = {call.name for call in calls if call.kind in {"allocate", "free"}}
        return Reporting(self.name, description, partial(CudaReport, accounted=accounted), emit)
