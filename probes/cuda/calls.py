"""The functions of CUDA that are probed, and what a call of each means.

Names and signatures: CUDA Runtime API (cuda_runtime_api.h) and CUDA Driver API (cuda.h). A function
that takes a stream has a twin for the per-thread default stream, `_ptsz` (or `_ptds` where the
stream is implied), which is the same call to whoever counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

RUNTIME = "libcudart"
"""Also PyTorch's own copy, `libcudart-d0da41ae.so.11.0`."""
DRIVER = "libcuda.so"

Kind: TypeAlias = Literal["synchronise", "copy", "allocate", "free", "launch", "graph"]

# By number, as program.bpf.c has them: cudaMemcpyKind (driver_types.h) plus one in the middle.
DIRECTIONS = ("", "h2h", "h2d", "d2h", "d2d", "default", "peer", "unknown")
DIRECTION_BITS = 3

# Kinds of memory whose bytes are held, by number, as program.bpf.c has them.
MEMORY = ("device", "pool", "managed", "host", "vmm")


@dataclass(frozen=True, slots=True)
class Call:
    """A function. `name`: its label value and, in upper case, its number in the BPF program.

    `twins`: suffixes of further symbols of the same function; `also`: other functions that mean the
    same and have the same arguments. `version`: what the driver appends to a symbol whose
    signature once changed.
    """

    name: str
    library: str
    kind: Kind
    twins: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    version: str = ""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every symbol, the plain one first."""
        names = (self.name + self.version, *self.also)
        return tuple(name + suffix for name in names for suffix in ("", *self.twins))

    @property
    def timed(self) -> bool:
        """Whether its end is probed too. A launch is far too frequent for a second trap."""
        return self.kind != "launch"


_STREAM = ("_ptsz",)
_DEFAULT = ("_ptds",)

CALLS = (
    Call("cudaStreamSynchronize", RUNTIME, "synchronise", _STREAM),
    Call("cudaEventSynchronize", RUNTIME, "synchronise"),
    Call("cudaDeviceSynchronize", RUNTIME, "synchronise", also=("cudaThreadSynchronize",)),
    Call("cudaMemcpy", RUNTIME, "copy", _DEFAULT),
    Call("cudaMemcpyAsync", RUNTIME, "copy", _STREAM),
    Call("cudaMemcpy2D", RUNTIME, "copy", _DEFAULT),
    Call("cudaMemcpy2DAsync", RUNTIME, "copy", _STREAM),
    Call("cudaMemcpyPeer", RUNTIME, "copy"),
    Call("cudaMemcpyPeerAsync", RUNTIME, "copy"),
    Call("cudaMalloc", RUNTIME, "allocate"),
    Call("cudaMallocAsync", RUNTIME, "allocate", _STREAM, ("cudaMallocFromPoolAsync",)),
    Call("cudaMallocManaged", RUNTIME, "allocate"),
    Call("cudaMallocHost", RUNTIME, "allocate", also=("cudaHostAlloc",)),
    Call("cudaFree", RUNTIME, "free"),
    Call("cudaFreeAsync", RUNTIME, "free", _STREAM),
    Call("cudaFreeHost", RUNTIME, "free"),
    Call("cudaLaunchKernel", RUNTIME, "launch", _STREAM),
    Call("cudaLaunchKernelExC", RUNTIME, "launch", _STREAM),
    Call("cudaLaunchCooperativeKernel", RUNTIME, "launch", _STREAM),
    Call("cudaGraphLaunch", RUNTIME, "graph", _STREAM),
    Call("cuStreamSynchronize", DRIVER, "synchronise", _STREAM),
    Call("cuEventSynchronize", DRIVER, "synchronise"),
    Call("cuCtxSynchronize", DRIVER, "synchronise", also=("cuCtxSynchronize_v2",)),
    Call("cuMemcpy", DRIVER, "copy", _DEFAULT),
    Call("cuMemcpyAsync", DRIVER, "copy", _STREAM),
    Call("cuMemcpyHtoD", DRIVER, "copy", _DEFAULT, version="_v2"),
    Call("cuMemcpyHtoDAsync", DRIVER, "copy", _STREAM, version="_v2"),
    Call("cuMemcpyDtoH", DRIVER, "copy", _DEFAULT, version="_v2"),
    Call("cuMemcpyDtoHAsync", DRIVER, "copy", _STREAM, version="_v2"),
    Call("cuMemcpyDtoD", DRIVER, "copy", _DEFAULT, version="_v2"),
    Call("cuMemcpyDtoDAsync", DRIVER, "copy", _STREAM, version="_v2"),
    Call("cuMemcpyPeer", DRIVER, "copy", _DEFAULT),
    Call("cuMemcpyPeerAsync", DRIVER, "copy", _STREAM),
    Call("cuMemAlloc", DRIVER, "allocate", version="_v2"),
    Call("cuMemAllocAsync", DRIVER, "allocate", _STREAM, ("cuMemAllocFromPoolAsync",)),
    Call("cuMemAllocManaged", DRIVER, "allocate"),
    Call("cuMemHostAlloc", DRIVER, "allocate", also=("cuMemAllocHost_v2",)),
    Call("cuMemCreate", DRIVER, "allocate"),
    Call("cuMemFree", DRIVER, "free", version="_v2"),
    Call("cuMemFreeAsync", DRIVER, "free", _STREAM),
    Call("cuMemFreeHost", DRIVER, "free"),
    Call("cuMemRelease", DRIVER, "free"),
    Call("cuLaunchKernel", DRIVER, "launch", _STREAM),
    Call("cuLaunchKernelEx", DRIVER, "launch", _STREAM),
    Call("cuLaunchCooperativeKernel", DRIVER, "launch", _STREAM),
    Call("cuGraphLaunch", DRIVER, "graph", _STREAM),
)
NUMBERS = {call.name: number for number, call in enumerate(CALLS)}


def slot(name: str, direction: str = "") -> int:
    """Where the kernel counts the calls of a function in one direction."""
    return NUMBERS[name] << DIRECTION_BITS | DIRECTIONS.index(direction)


def call_at(slot: int) -> tuple[Call, str]:
    """The function and the direction of a slot. IndexError when there is no such function."""
    return CALLS[slot >> DIRECTION_BITS], DIRECTIONS[slot & (1 << DIRECTION_BITS) - 1]
