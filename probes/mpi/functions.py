"""Which MPI functions are probed, and under which slots they are counted.

`MPI_X` is a weak alias of `PMPI_X` in OpenMPI and MPICH: both names stand for one address, which is
probed once. A tracing wrapper that defines `MPI_X` itself ends in `PMPI_X`; the Fortran and C++
bindings call one or the other. `_c` are the same with large counts (MPI 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from probes.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Iterable

# Also libmpich.so, libmpi_abi.so, libmpi_gnu_*.so; what else begins so has no MPI_ of its own.
LIBRARY = "libmpi"
# They block the calling thread until data came or went: the order is that of program.bpf.c.
BLOCKING = (
    "Wait", "Waitall", "Waitany", "Waitsome", "Barrier", "Allreduce", "Allgather", "Allgatherv",
    "Reduce", "Bcast", "Recv", "Send", "Ssend", "Sendrecv", "Sendrecv_replace", "Alltoall",
    "Alltoallv", "Alltoallw", "Gather", "Gatherv", "Scatter", "Scatterv", "Reduce_scatter",
    "Reduce_scatter_block", "Scan", "Exscan", "Probe", "Mprobe", "Mrecv",
)  # fmt: skip
INIT, ABORT, ERROR = "Init", "Abort", "error"
SLOTS = (*BLOCKING, INIT, ABORT, ERROR)


def _names(*calls: str) -> tuple[str, ...]:
    return tuple(
        f"{prefix}{call}{suffix}" for call in calls for prefix in ("MPI_", "PMPI_")
        for suffix in ("", "_c")
    )  # fmt: skip


def functions(without: Iterable[str] = ()) -> tuple[Function, ...]:
    """All of them but those whose calls are not wanted."""
    chosen = [each for each in BLOCKING if each not in set(without)]
    timed = tuple(
        Function(
            call, LIBRARY, _names(call), f"enter_{call}", f"leave_{call}", mark=f"count_{call}",
            optional=True,
        )
        for call in chosen
    )  # fmt: skip
    # What a job does first comes first: a new file is attached while its first user starts.
    return (
        Function(
            INIT, LIBRARY, _names("Init", "Init_thread", "Session_init"), "enter_init",
            "leave_init", mark="count_init", optional=True,
        ),
        Function(ABORT, LIBRARY, _names("Abort"), "enter_abort", optional=True),
        # What is called where a call fails, before its error handler decides whether it returns.
        Function(
            ERROR, LIBRARY, ("ompi_errhandler_invoke",), "enter_ompi_error",
            optional=True,
        ),
        Function(
            "error of a request of OpenMPI", LIBRARY, ("ompi_errhandler_request_invoke",),
            "enter_ompi_request_error", optional=True,
        ),
        Function(
            "error of MPICH", LIBRARY,
            ("MPIR_Err_return_comm", "MPIR_Err_return_win", "MPIR_Err_return_session",
             "MPIR_Err_return_group"),
            "enter_mpich_error", optional=True,
        ),
        *timed,
    )  # fmt: skip
