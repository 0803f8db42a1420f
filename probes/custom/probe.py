"""The user's own probes, as `probes: custom: probes:` has them. See README.md.

Source: uprobes at entries, and exits where durations are taken, of the functions that are named.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from probes.bpf.errors import UnavailableError
from probes.custom.functions import function
from probes.custom.report import CustomReport
from probes.custom.settings import CustomSettings
from probes.custom.slots import plan
from probes.functions.followed import Description
from probes.functions.probe import LibraryProbe
from probes.functions.reporting import Reporting

if TYPE_CHECKING:
    from probes.functions.probe import Emit, Given

SOURCE = Path(__file__).with_name("program.bpf.c")
LEAST_SLOTS = 256  # as calls.h has by default


class CustomProbe(LibraryProbe):
    """See the module. One thread uses it."""

    name = "custom"
    Config = CustomSettings

    def open(self, given: Given, emit: Emit) -> Reporting:
        """See `LibraryProbe`."""
        settings = CustomSettings.model_validate(given)
        if not settings.probes:
            raise UnavailableError(
                "disabled",
                "there are no probes of your own",
                "probes: custom: probes: in stallwatch.yaml",
            )
        planned = plan(settings.probes)
        slots = {slot.name: slot for slot in planned.slots}
        slow = {
            slot.name: slot.probe.slow.seconds
            for slot in planned.slots
            if slot.argument is None and slot.probe.slow.ms
        }
        description = Description(
            SOURCE,
            [function(number, each) for number, each in enumerate(settings.probes)],
            tuple(slots),
            settings.budget,
            function_of=lambda slot: slots[slot].probe.name,
            defines={**settings.defines(), "SW_CALL_SLOTS": max(LEAST_SLOTS, len(slots))},
            thresholds=slow,
            files_limit=settings.files_limit,
        )
        report = partial(CustomReport, probes=settings.probes, plan=planned)
        return Reporting(self.name, description, report, emit)
