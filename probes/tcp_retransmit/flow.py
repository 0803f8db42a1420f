"""The kernel's records, decoded: a connection as a retransmit, a failure or a reset saw it."""

from __future__ import annotations

import enum
import ipaddress
import struct
from dataclasses import dataclass

_FLOW = struct.Struct("=QQ16s16sIHH")
_HEAD = struct.Struct("=QII")
FLOW_BYTES = _FLOW.size
RECORD_BYTES = _HEAD.size + FLOW_BYTES


class Kind(enum.IntEnum):
    """What a record tells: the enum of program.bpf.c."""

    RETRANSMIT = 0
    LOSS_PROBE = 1
    CONNECT_FAILED = 2
    RESET = 3


@dataclass(frozen=True, slots=True)
class Connection:
    """A 4-tuple from the local end: addresses as text, IPv4 dotted."""

    source: str
    source_port: int
    destination: str
    destination_port: int


@dataclass(frozen=True, slots=True)
class User:
    """Who used a socket: `pid` in the initial pid namespace, 0 when nobody was seen.

    `since_ns`: when the process of that pid was first seen to use TCP, CLOCK_MONOTONIC. A process
    that got the pid later is another one.
    """

    pid: int = 0
    since_ns: int = 0


@dataclass(frozen=True, slots=True)
class Flow:
    """`socket`: the kernel's address of the socket, an opaque key."""

    socket: int
    user: User
    connection: Connection


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that happened. `detail`: a failed connect's or a reset's tally (tallies.py)."""

    monotonic_ns: int
    kind: Kind
    detail: int
    flow: Flow


def decode_flow(raw: bytes) -> Flow:
    """`struct flow` of program.bpf.c."""
    fields = _FLOW.unpack(raw)
    socket, since, source, destination, owner, source_port, destination_port = fields
    connection = Connection(
        address_text(source), source_port, address_text(destination), destination_port
    )
    return Flow(socket, User(owner, since), connection)


def decode_record(raw: bytes) -> Record:
    """`struct record`. A ring may pad a record: the rest is cut."""
    monotonic_ns, kind, detail = _HEAD.unpack_from(raw)
    return Record(monotonic_ns, Kind(kind), detail, decode_flow(raw[_HEAD.size : RECORD_BYTES]))


def address_text(raw: bytes) -> str:
    """16 bytes as text; ::ffff:a.b.c.d, the kernel's form of IPv4, as a.b.c.d."""
    address = ipaddress.IPv6Address(raw)
    return str(address.ipv4_mapped or address)
