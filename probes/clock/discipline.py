"""What the kernel's clock discipline says, by adjtimex(2)."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

_STA_UNSYNC, _STA_NANO = 0x40, 0x2000
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


@dataclass(frozen=True, slots=True)
class Discipline:
    """What the kernel knows of the clock's discipline.

    `offset_seconds`: what the time daemon still has to correct. `error_seconds`: how far the clock
    may be off, which the kernel raises by 0.5 ms a second until the daemon renews it.
    """

    synchronized: bool
    offset_seconds: float
    error_seconds: float


def read_discipline() -> Discipline:
    """Ask, changing nothing. Raises OSError where the system call is refused."""
    timex = _Timex()
    libc = ctypes.CDLL(None, use_errno=True)
    state = libc.adjtimex(ctypes.byref(timex))
    if state < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    unit = 1e-9 if timex.status & _STA_NANO else 1e-6
    return Discipline(
        synchronized=state != _TIME_ERROR and not timex.status & _STA_UNSYNC,
        offset_seconds=timex.offset * unit,
        error_seconds=timex.maxerror / 1e6,
    )
