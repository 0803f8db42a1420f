"""`struct end` of program.bpf.c: how a process ended."""

from __future__ import annotations

import signal
import struct
from dataclasses import dataclass
from typing import Literal

_END = struct.Struct("=QIIIIII16s16s")
_KINDS: tuple[Literal["killed", "oom"], ...] = ("killed", "oom")


@dataclass(frozen=True, slots=True)
class Ending:
    """One end. `kind`: killed (it ended by `signal`) or oom (it was chosen to be killed).

    `monotonic_ns`: when the signal was sent or taken up. `sender` (a pid) and `sender_comm`: who
    sent it, 0 and "" for a fault of its own and for signals that dump core.
    """

    kind: Literal["killed", "oom"]
    monotonic_ns: int
    pid: int
    signal: str
    sender: int = 0
    comm: str = ""
    sender_comm: str = ""


def is_certain(record: bytes) -> bool:
    """Whether a process that is gone ended by this signal, rather than with it still blocked."""
    return len(record) >= _END.size and _END.unpack_from(record)[5] != 0


def decode_ending(record: bytes) -> Ending:
    """A ring may pad a record: the rest is cut. ValueError for what is too short or unknown."""
    if len(record) < _END.size:
        raise ValueError(f"an end of {len(record)} bytes; {_END.size} were expected")
    at, kind, pid, number, sender, _, _, comm, sender_comm = _END.unpack_from(record)
    if kind >= len(_KINDS):
        raise ValueError(f"an end of the unknown kind {kind}")
    return Ending(
        _KINDS[kind], at, pid, signal_name(number), sender, _text(comm), _text(sender_comm)
    )


def signal_name(number: int) -> str:
    """`SIGSEGV`; real-time signals, which have no name, as `SIGRTMIN+N`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN{number - 34:+d}"


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")
