"""Calls of the CUDA runtime whose number, bytes and allocations are known, by ctypes."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any

MIB = 1 << 20
HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3
ALLOCATIONS, FREED = 24, 16
COPIES = {HOST_TO_DEVICE: ("h2d", 30), DEVICE_TO_HOST: ("d2h", 20), DEVICE_TO_DEVICE: ("d2d", 10)}
STREAM_SYNCHRONISES, DEVICE_SYNCHRONISES, FAILURES = 40, 15, 5


class CallError(Exception):
    """A call that should have succeeded did not."""


def runtime_of_this_process() -> Path:
    """The libcudart that is mapped here. Raises CallError when there is none."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        name = line.rpartition(" ")[2]
        if name.rpartition("/")[2].startswith("libcudart"):
            return Path(name)
    raise CallError("no libcudart is mapped: this PyTorch has the runtime linked in")


def make(cuda: Any) -> dict[str, Any]:
    """Make them; what was done: `calls`, `errors`, `bytes`, and `held`, which is never freed.

    Not more than 200 MB of device memory, and no stream but the default one.
    """
    pointers = [c_void_p() for _ in range(ALLOCATIONS)]
    host = ctypes.create_string_buffer(MIB)
    for pointer in pointers:
        _check("cudaMalloc", cuda.cudaMalloc(byref(pointer), c_size_t(8 * MIB)))
    first, second = pointers[:2]
    sides = {
        HOST_TO_DEVICE: (first, host),
        DEVICE_TO_HOST: (host, first),
        DEVICE_TO_DEVICE: (second, first),
    }
    for kind, (_, count) in COPIES.items():
        to, source = sides[kind]
        for _ in range(count):
            _check("cudaMemcpy", cuda.cudaMemcpy(to, source, c_size_t(MIB), c_int(kind)))
    for _ in range(STREAM_SYNCHRONISES):
        _check("cudaStreamSynchronize", cuda.cudaStreamSynchronize(c_void_p()))
    for _ in range(DEVICE_SYNCHRONISES):
        _check("cudaDeviceSynchronize", cuda.cudaDeviceSynchronize())
    for pointer in pointers[-FREED:]:
        _check("cudaFree", cuda.cudaFree(pointer))
    # Nowhere to copy to: cudaErrorInvalidValue, and nothing is harmed by it.
    for _ in range(FAILURES):
        if not cuda.cudaMemcpy(c_void_p(), host, c_size_t(1), c_int(HOST_TO_DEVICE)):
            raise CallError("cudaMemcpy to a null pointer succeeded")
    return {
        "calls": {
            "cudaMalloc": ALLOCATIONS,
            "cudaFree": FREED,
            "cudaMemcpy": sum(count for _, count in COPIES.values()) + FAILURES,
            "cudaStreamSynchronize": STREAM_SYNCHRONISES,
            "cudaDeviceSynchronize": DEVICE_SYNCHRONISES,
        },
        "errors": {"cudaMemcpy": FAILURES},
        "bytes": {
            f"cudaMemcpy {name}": count * MIB + FAILURES * (name == "h2d")
            for name, count in COPIES.values()
        },
        "held": (ALLOCATIONS - FREED) * 8 * MIB,
    }


def _check(name: str, result: int) -> None:
    if result:
        raise CallError(f"{name} returned {result}")
