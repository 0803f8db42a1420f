"""The kernel's records, decoded: a connection as a retransmit saw it."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

_FLOW = struct.Struct("=Q16s16sIHH")
_TIME = struct.Struct("=Q")
FLOW_BYTES = _FLOW.size
RECORD_BYTES = _TIME.size + FLOW_BYTES


@dataclass(frozen=True, slots=True)
class Connection:
    """A 4-tuple from the local end: addresses as text, IPv4 dotted."""

    source: str
    source_port: int
    destination: str
    destination_port: int


@dataclass(frozen=True, slots=True)
class Flow:
    """`socket`: the kernel's address of the socket, an opaque key. `owner`: pid in the initial
    pid namespace, 0 when nobody was seen using the socket.
    """  # noqa: D205 - one sentence

    socket: int
    owner: int
    connection: Connection


def decode_flow(raw: bytes) -> Flow:
    """`struct flow` of program.bpf.c."""
    socket, source, destination, owner, source_port, destination_port = _FLOW.unpack(raw)
    connection = Connection(
        address_text(source), source_port, address_text(destination), destination_port
    )
    return Flow(socket, owner, connection)


def decode_record(raw: bytes) -> tuple[int, Flow]:
    """`struct record`: (monotonic nanoseconds, flow). A ring may pad a record: the rest is cut."""
    return _TIME.unpack_from(raw)[0], decode_flow(raw[_TIME.size : RECORD_BYTES])


def address_text(raw: bytes) -> str:
    """16 bytes as text; ::ffff:a.b.c.d, the kernel's form of IPv4, as a.b.c.d."""
    address = ipaddress.IPv6Address(raw)
    return str(address.ipv4_mapped or address)
