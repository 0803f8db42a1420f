"""The table of calls as functions to be probed, and as slots of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probes.cuda.calls import CALLS, DIRECTIONS, NUMBERS, RUNTIME, Call
from probes.functions.function import Function

if TYPE_CHECKING:
    from probes.cuda.settings import CudaSettings

# What tells that a process uses its GPU, when launches are too many to be counted at all.
_COLDER = {True: ("cudaStreamSynchronize",), False: ("cuStreamSynchronize",)}


def chosen(settings: CudaSettings) -> tuple[Call, ...]:
    """The calls that are probed."""
    wanted = {True: settings.runtime, False: settings.driver}
    return tuple(call for call in CALLS if wanted[call.library == RUNTIME])


def function(call: Call) -> Function:
    """As it is probed. Not every version of CUDA has every function."""
    leave = f"leave_{call.name}" if call.timed else ""
    colder = () if call.timed else _COLDER[call.library == RUNTIME]
    return Function(
        call.name, call.library, call.symbols, f"enter_{call.name}", leave, colder, optional=True
    )


def defines() -> dict[str, int]:
    """Each call's number, as the program names it."""
    return {name.upper(): number for name, number in NUMBERS.items()}


def slot_names() -> tuple[str, ...]:
    """What each slot is called: `cudaMemcpy` and, per direction, `cudaMemcpy h2d`."""
    return tuple(f"{call.name} {way}".strip() for call in CALLS for way in DIRECTIONS)


def function_name(slot_name: str) -> str:
    """The function whose slot this is."""
    return slot_name.partition(" ")[0]


def call_of(slot_name: str) -> tuple[Call, str]:
    """The function and the direction behind a slot's name. KeyError when there is none."""
    name, _, direction = slot_name.partition(" ")
    return CALLS[NUMBERS[name]], direction
