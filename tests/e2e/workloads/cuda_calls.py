"""Calls NVIDIA's CUDA runtime, given by its path, on a machine with or without a GPU.

Waits for a line, makes each call twice, prints what each answered as JSON, and waits again.
"""

from __future__ import annotations

import ctypes
import json
import sys
from ctypes import byref, c_int, c_size_t, c_void_p
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Dim3(ctypes.Structure):
    """dim3 of vector_types.h, passed by value."""

    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


def main() -> None:
    """See the module."""
    cuda = ctypes.CDLL(sys.argv[1])
    there, here, one = c_void_p(), ctypes.create_string_buffer(65536), Dim3(1, 1, 1)
    at, none = ctypes.addressof(here), c_void_p()

    def size(value: int) -> c_size_t:
        return c_size_t(value)

    calls: dict[str, Callable[[str], int]] = {
        "cudaMalloc": lambda name: cuda[name](byref(there), size(4096)),
        "cudaMallocManaged": lambda name: cuda[name](byref(there), size(4096), 1),
        "cudaMallocHost": lambda name: cuda[name](byref(there), size(4096)),
        "cudaMallocAsync": lambda name: cuda[name](byref(there), size(4096), none),
        "cudaMemcpy": lambda name: cuda[name](c_void_p(at), c_void_p(at), size(1000), c_int(1)),
        "cudaMemcpyAsync": lambda name: cuda[name](
            c_void_p(at), c_void_p(at), size(2000), c_int(2), none
        ),
        "cudaMemcpy2D": lambda name: cuda[name](
            c_void_p(at), size(128), c_void_p(at), size(128), size(64), size(10), c_int(3)
        ),
        "cudaMemcpy2DAsync": lambda name: cuda[name](
            c_void_p(at), size(128), c_void_p(at), size(128), size(64), size(20), c_int(4), none
        ),
        "cudaMemcpyPeer": lambda name: cuda[name](c_void_p(at), 0, c_void_p(at), 0, size(3000)),
        "cudaMemcpyPeerAsync": lambda name: cuda[name](
            c_void_p(at), 0, c_void_p(at), 0, size(4000), none
        ),
        "cudaStreamSynchronize": lambda name: cuda[name](none),
        "cudaStreamSynchronize_ptsz": lambda name: cuda[name](none),
        "cudaEventSynchronize": lambda name: cuda[name](none),
        "cudaDeviceSynchronize": lambda name: cuda[name](),
        "cudaLaunchKernel": lambda name: cuda[name](c_void_p(at), one, one, none, size(0), none),
        "cudaLaunchKernel_ptsz": lambda name: cuda[name](
            c_void_p(at), one, one, none, size(0), none
        ),
        "cudaLaunchCooperativeKernel": lambda name: cuda[name](
            c_void_p(at), one, one, none, size(0), none
        ),
        "cudaGraphLaunch": lambda name: cuda[name](none, none),
        "cudaFree": lambda name: cuda[name](none),
        "cudaFreeHost": lambda name: cuda[name](none),
        "cudaFreeAsync": lambda name: cuda[name](none, none),
    }
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps({name: [call(name) for _ in "12"] for name, call in calls.items()}))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
