"""Whether the node's clock is disciplined: nodes that disagree cannot be put in order."""

from __future__ import annotations

import ctypes

from probes.diagnosis.finding import Finding

_STA_UNSYNC = 0x40
_TIME_ERROR = 5


class _Timex(ctypes.Structure):
    """The start of struct timex (include/uapi/linux/timex.h); the rest is padding."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("_rest", ctypes.c_byte * 256),
    )


def read_clock() -> Finding:
    """Ask the kernel by adjtimex(2), changing nothing."""
    timex = _Timex()
    state = ctypes.CDLL(None).adjtimex(ctypes.byref(timex))
    mend = "run chronyd or systemd-timesyncd; events of several nodes cannot be ordered without"
    if state < 0:
        return Finding("clock", "degraded", "the kernel does not say", mend)
    if state == _TIME_ERROR or timex.status & _STA_UNSYNC:
        return Finding("clock", "degraded", "not synchronised", mend)
    return Finding("clock", "ok", f"synchronised, error at most {timex.maxerror / 1e6:.3f} s")
