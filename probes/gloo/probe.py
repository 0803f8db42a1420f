"""`gloo_wait_seconds_total`, `gloo_connects_total`, `gloo_failures_total` and ranks.

Source: uprobes on what Gloo exports in libtorch_cpu.so and libgloo.so. See README.md: a wait here
is communication in flight; the exposed wait is `comm_wait_ratio` of torch_step.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from probes.functions.followed import Description
from probes.functions.probe import LibraryProbe
from probes.functions.reporting import Reporting
from probes.gloo.functions import CONNECT, FUNCTIONS, SLOTS
from probes.gloo.report import GlooReport
from probes.gloo.settings import GlooSettings

if TYPE_CHECKING:
    from probes.functions.probe import Emit, Given

SOURCE = Path(__file__).with_name("program.bpf.c")


class GlooProbe(LibraryProbe):
    """See the module. One thread uses it."""

    name = "gloo"
    Config = GlooSettings

    def open(self, given: Given, emit: Emit) -> Reporting:
        """See `LibraryProbe`."""
        settings = GlooSettings.model_validate(given)
        description = Description(
            *(SOURCE, FUNCTIONS, SLOTS, settings.budget),
            thresholds={CONNECT: settings.slow_connect.seconds},
            files_limit=settings.files_limit,
        )
        return Reporting(self.name, description, GlooReport, emit)
