"""How freed memory is kept.

glibc hands a large array's memory back to the kernel as soon as it is freed. The next array of
that size then costs a page fault for every 4 KiB, which takes several times as long as the
arithmetic on it. A process that evaluates over long axes keeps what it has freed instead.
"""

from __future__ import annotations

import ctypes

# <malloc.h>; the threshold for mmap may be half of a thread's heap at most.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
LARGEST_KEPT_BYTES = 32 * 2**20
KEPT_BYTES = 256 * 2**20


def keep_freed_memory() -> bool:
    """Reuse freed arrays. Returns whether the C library has such a setting (glibc's mallopt)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((M_TRIM_THRESHOLD, KEPT_BYTES), (M_MMAP_THRESHOLD, LARGEST_KEPT_BYTES))
    return all(mallopt(ctypes.c_int(name), ctypes.c_int(value)) for name, value in settings)
