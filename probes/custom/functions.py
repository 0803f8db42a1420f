"""The user's probes as functions, with the programs that program.bpf.c has for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probes.functions.function import Function

if TYPE_CHECKING:
    from probes.custom.settings import ProbeConfig


def function(number: int, probe: ProbeConfig) -> Function:
    """The function of a probe, by the probe's place."""
    count = f"count_{number}"
    enter, leave = (f"enter_{number}", f"leave_{number}") if probe.timed else (count, "")
    return Function(
        *(probe.name, probe.library, probe.symbol, enter, leave), mark=count, most=probe.most
    )
