"""The C library that reads rings, without the compiler that it usually comes with.

`libbcc_bpf` is the half of bcc that does not need LLVM (bcc src/cc/libbpf.h, perf_reader.h); the
distributions that package bcc put it beside libbcc. It knows each architecture's barriers, which
Python cannot spell: a ring's positions are read with acquire and written with release.
"""

from __future__ import annotations

import ctypes
import functools

from probes.bpf.errors import UnavailableError

# libbcc has the same functions, and brings LLVM into the process: 75 MB.
_NAMES = ("libbcc_bpf.so.0", "libbcc_bpf.so", "libbcc.so.0", "libbcc.so")

ON_SAMPLE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
ON_RAW = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
ON_LOST = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64)


@functools.cache
def library() -> ctypes.CDLL:
    """Raises UnavailableError (no_bcc)."""
    for name in _NAMES:
        try:
            loaded = ctypes.CDLL(name)
            _declare(loaded)
        except (OSError, AttributeError):
            continue
        return loaded
    raise UnavailableError(
        "no_bcc", f"no {_NAMES[0]} to read rings with", "apt-get install libbpfcc (Fedora: bcc)"
    )


def _declare(loaded: ctypes.CDLL) -> None:
    pointer = ctypes.c_void_p
    loaded.bpf_new_ringbuf.restype = pointer
    loaded.bpf_new_ringbuf.argtypes = [ctypes.c_int, ON_SAMPLE, pointer]
    loaded.bpf_consume_ringbuf.argtypes = [pointer]
    loaded.bpf_free_ringbuf.restype = None
    loaded.bpf_free_ringbuf.argtypes = [pointer]
    loaded.bpf_open_perf_buffer.restype = pointer
    numbers = [ctypes.c_int] * 3
    loaded.bpf_open_perf_buffer.argtypes = [ON_RAW, ON_LOST, pointer, *numbers]
    loaded.perf_reader_fd.argtypes = [pointer]
    loaded.perf_reader_free.restype = None
    loaded.perf_reader_free.argtypes = [pointer]
    loaded.perf_reader_poll.argtypes = [ctypes.c_int, ctypes.POINTER(pointer), ctypes.c_int]
