"""Which functions are probed, with which programs of program.bpf.c.

`ncclX` is a weak alias of `pncclX`: both names stand for one address, which is probed once. A
profiler or MPI-style wrapper that defines `ncclX` itself ends in `pncclX`, so that both are named.
`ncclBcast` calls `ncclBroadcast` and is left out.
"""

from __future__ import annotations

from probes.functions.function import Function

LIBRARY = "libnccl.so"
RUNTIME = "libcudart"  # also PyTorch's own copy, libcudart-d0da41ae.so.11.0
DRIVER = "libcuda.so"


def _both(*names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}{name}" for name in names for prefix in ("pnccl", "nccl"))


def _call(name: str, program: str, *, config: bool = True, optional: bool = False) -> Function:
    """`XConfig` (2.32) takes the arguments of `X` and one more behind them."""
    names = (name, f"{name}Config") if config else (name,)
    return Function(f"nccl{name}", LIBRARY, _both(*names), program, optional=optional)


def _other(name: str, enter: str, leave: str = "", *, optional: bool = False) -> Function:
    # Without exits what such a call brought is not known, and its entry alone says nothing.
    mark = "ignore" if leave else ""
    return Function(f"nccl{name}", LIBRARY, _both(name), enter, leave, mark=mark, optional=optional)


CALLS = (
    _call("AllReduce", "all_reduce"),
    _call("AllGather", "all_gather"),
    _call("ReduceScatter", "reduce_scatter"),
    _call("Broadcast", "broadcast"),
    _call("Reduce", "reduce"),
    _call("AlltoAll", "all_to_all", optional=True),  # 2.28
    _call("Gather", "gather", optional=True),
    _call("Scatter", "scatter", optional=True),
    _call("Send", "send_call", config=False, optional=True),  # 2.7
    _call("Recv", "receive_call", config=False, optional=True),
)
# What calls return. Apart from the calls, because a return is single-stepped on x86-64 and costs
# ten times what an entry costs: over budget it goes first, and calls are still all counted.
RESULT = ".result"
RESULTS = tuple(
    Function(
        f"{each.name}{RESULT}",
        LIBRARY,
        each.symbols,
        "ignore",
        "leave_call",
        mark="ignore",
        optional=each.optional,
    )
    for each in CALLS
)
COMMUNICATORS = (
    _other("CommInitRank", "init_rank", "leave_init"),
    _other("CommInitRankConfig", "init_rank_config", "leave_init", optional=True),  # 2.14
    _other("CommInitRankScalable", "init_rank_scalable", "leave_init", optional=True),  # 2.23
    _other("CommInitAll", "init_all", "leave_init_all"),
    _other("CommSplit", "split", "leave_init", optional=True),  # 2.18
    _other("CommShrink", "shrink", "leave_init", optional=True),  # 2.27
    _other("CommGrow", "grow", "leave_init", optional=True),  # 2.29
    _other("GroupStart", "group_start"),
    _other("GroupEnd", "group_end", "leave_group_end"),
    _other("CommGetAsyncError", "get_async_error", "leave_get_async_error"),
    _other("CommUserRank", "get_rank", "leave_get_rank"),
    _other("CommCount", "get_count", "leave_get_count"),
    _other("CommAbort", "communicator_abort"),
    _other("CommDestroy", "communicator_destroy"),
    _other("CommFinalize", "communicator_finalize", optional=True),  # 2.14
    _other("CommRevoke", "communicator_revoke", optional=True),  # 2.29
)


def _wait(library: str, program: str, name: str, *twins: str) -> Function:
    symbols = (name, *twins)
    return Function(
        name, library, symbols, f"enter_{program}", "leave_wait", mark="ignore", optional=True
    )


# Calls that return when the GPU has done what was asked of it. libcudart is linked into some
# programs, so that only libcuda, which it calls, is seen; where both are, the outer call counts.
# cudaStreamWaitEvent makes the GPU wait, not the thread. *_ptsz and *_ptds are the same functions
# for programs built with per-thread default streams.
WAITS = (
    _wait(RUNTIME, "stream_synchronize", "cudaStreamSynchronize", "cudaStreamSynchronize_ptsz"),
    _wait(RUNTIME, "event_synchronize", "cudaEventSynchronize"),
    _wait(RUNTIME, "device_synchronize", "cudaDeviceSynchronize"),
    _wait(RUNTIME, "copy", "cudaMemcpy", "cudaMemcpy_ptds"),
    _wait(DRIVER, "driver_stream_synchronize", "cuStreamSynchronize", "cuStreamSynchronize_ptsz"),
    _wait(DRIVER, "driver_event_synchronize", "cuEventSynchronize"),
    _wait(DRIVER, "driver_context_synchronize", "cuCtxSynchronize"),
    _wait(DRIVER, "driver_copy", "cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2_ptds"),
)
FUNCTIONS = (*CALLS, *RESULTS, *COMMUNICATORS, *WAITS)
