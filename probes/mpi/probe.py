"""`mpi_calls_total`, `comm_wait_ratio` and friends of MPI jobs.

Source: uprobes at entries and exits of the blocking calls of every libmpi that a process maps.
See README.md.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from probes.functions.followed import Description
from probes.functions.probe import LibraryProbe
from probes.functions.reporting import Reporting
from probes.mpi.functions import INIT, SLOTS, functions
from probes.mpi.report import MpiReport
from probes.mpi.settings import MpiSettings

if TYPE_CHECKING:
    from probes.functions.probe import Emit, Given

SOURCE = Path(__file__).with_name("program.bpf.c")


class MpiProbe(LibraryProbe):
    """See the module. One thread uses it."""

    name = "mpi"
    Config = MpiSettings

    def open(self, given: Given, emit: Emit) -> Reporting:
        """See `LibraryProbe`."""
        settings = MpiSettings.model_validate(given)
        description = Description(
            *(SOURCE, functions(settings.without), SLOTS, settings.budget),
            thresholds={INIT: settings.slow_init.seconds},
            files_limit=settings.files_limit,
        )
        report = partial(MpiReport, events_limit=settings.events)
        return Reporting(self.name, description, report, emit)
