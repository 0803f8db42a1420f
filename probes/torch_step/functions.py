"""What is probed, where, and with which programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probes.functions.function import Function
from probes.torch_step.thread import (
    BACKWARD,
    COLLECTIVES,
    FLIGHTS,
    GROUPS,
    MARKERS,
    RANGES,
    REDUCER,
    WAITS,
)
from probes.torch_step.thread import NVTX as PUSHES

if TYPE_CHECKING:
    from collections.abc import Iterable

TORCH = "libtorch_cpu.so"
NVTX = "libnvToolsExt.so"
MARKER = "libstallwatch_step"
FINALIZE = "c10d::Reducer::finalize_backward"
WAIT = "c10d::Work::wait"
_BUFFERS = ("UnboundBuffer", "Buffer")

_FUNCTIONS = (
    Function(
        FINALIZE, TORCH, (FINALIZE,), "enter_finalize", "leave_finalize", mark="mark_finalize"
    ),
    # Next to it, as its waits are held against these.
    *(
        Function(
            f"gloo::transport::tcp::UnboundBuffer::{wait}",
            TORCH,
            tuple(f"gloo::transport::tcp::{buffer}::{wait}" for buffer in _BUFFERS),
            "enter_flight",
            "leave_flight",
            mark="mark_wait",
            optional=True,
        )
        for wait in ("waitRecv", "waitSend")
    ),
    Function(
        "torch::autograd::Engine::execute",
        TORCH,
        ("torch::autograd::Engine::execute",),
        "enter_backward",
        "leave_backward",
        mark="mark_backward",
        optional=True,
    ),
    Function(
        "torch::autograd::profiler::record_function_enter_new",
        TORCH,
        ("torch::autograd::profiler::record_function_enter_new",),
        "enter_range",
        optional=True,  # older than 1.11
    ),
    # Its name until 1.13.
    Function(
        WAIT,
        TORCH,
        (WAIT, "c10d::ProcessGroup::Work::wait"),
        "enter_wait",
        "leave_wait",
        mark="mark_wait",
        optional=True,
    ),
    Function(
        "c10d::ProcessGroupGloo::SendWork::wait",
        TORCH,
        ("c10d::ProcessGroupGloo::SendWork::wait",),
        "enter_send",
        "leave_wait",
        mark="mark_wait",
        optional=True,
    ),
    Function(
        "c10d::ProcessGroupGloo::RecvWork::wait",
        TORCH,
        ("c10d::ProcessGroupGloo::RecvWork::wait",),
        "enter_recv",
        "leave_wait",
        mark="mark_wait",
        optional=True,
    ),
    Function(
        "c10d::ProcessGroupGloo::monitoredBarrier",
        TORCH,
        ("c10d::ProcessGroupGloo::monitoredBarrier",),
        "enter_barrier",
        "leave_wait",
        mark="mark_wait",
        optional=True,
    ),
    Function(
        "c10d::ProcessGroupGloo::AsyncWork::AsyncWork",
        TORCH,
        ("c10d::ProcessGroupGloo::AsyncWork::AsyncWork",),
        "enter_collective",
        optional=True,
    ),
    Function("nvtxRangePushA", NVTX, ("nvtxRangePushA",), "enter_nvtx", optional=True),
)


# The group under whose budget a function is, by the program at its entry.
GROUP_OF = {
    "enter_finalize": REDUCER,
    "enter_wait": WAITS,
    "enter_send": WAITS,
    "enter_recv": WAITS,
    "enter_barrier": WAITS,
    "enter_flight": FLIGHTS,
    "enter_backward": BACKWARD,
    "enter_range": RANGES,
    "enter_nvtx": PUSHES,
    "enter_marker": MARKERS,
    "enter_collective": COLLECTIVES,
}


def members(wanted: Iterable[Function]) -> dict[str, list[str]]:
    """By group, the names of its functions."""
    found: dict[str, list[str]] = {group: [] for group in GROUPS}
    for each in wanted:
        found[GROUP_OF[each.enter]].append(each.name)
    return found


def functions(marker_libraries: Iterable[str]) -> tuple[Function, ...]:
    """All of them; `marker_libraries`: beginnings of files that may have a `stallwatch_step`."""
    markers = dict.fromkeys((MARKER, *marker_libraries))
    return _FUNCTIONS + tuple(
        Function(
            f"stallwatch_step of {library}*",
            library,
            ("stallwatch_step",),
            "enter_marker",
            optional=True,
        )
        for library in markers
    )
