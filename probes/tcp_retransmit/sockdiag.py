"""TCP sockets of one network namespace, asked from the kernel by sock_diag(7).

Layouts: struct inet_diag_req_v2, inet_diag_msg (include/uapi/linux/inet_diag.h) and tcp_info
(include/uapi/linux/tcp.h), user-space ABI to which fields are only appended.
"""

from __future__ import annotations

import errno
import socket
import struct
from typing import TYPE_CHECKING

from probes.tcp_retransmit.flow import Connection, address_text
from probes.tcp_retransmit.tcpinfo import TcpInfo
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST, _NLM_F_DUMP = 1, 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_INET_DIAG_INFO = 2

# Without TIME_WAIT (6), SYN_RECV (3), LISTEN (10), NEW_SYN_RECV (12): they send no data.
_STATES = sum(1 << state for state in (1, 2, 4, 5, 7, 8, 9, 11))

# SKNLGRP_INET_TCP_DESTROY (1) and SKNLGRP_INET6_TCP_DESTROY (3) as a mask of groups.
_DESTROY_GROUPS = 1 << 0 | 1 << 2
_LISTENER_BYTES = 1 << 20  # about 2,000 sockets between two polls

_HEADER = struct.Struct("=IHHII")
# family, state, timer, retrans, sport, dport, src, dst, interface, cookie, expires, rqueue,
# wqueue, uid, inode
_MESSAGE = struct.Struct("=BBBB2s2s16s16sIQIIIII")
_ATTRIBUTE = struct.Struct("=HH")
ENDPOINTS = struct.Struct("=16s16sHHI")
_V4_MAPPED = bytes(10) + b"\xff\xff"


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """One connection. `cookie` never repeats in a namespace; `inode` is 0 once nobody holds it.

    `endpoints`: addresses of 16 bytes and ports, as the kernel side of the probe writes them.
    `unread_bytes`: arrived and not read by the process. `info`: the rest.
    """

    endpoints: bytes
    inode: int
    cookie: int
    state: int
    unread_bytes: int
    info: TcpInfo

    @property
    def connection(self) -> Connection:
        """The 4-tuple as text, which takes longer than all of the rest."""
        return decode_endpoints(self.endpoints)


def decode_endpoints(raw: bytes) -> Connection:
    """`struct endpoints` of program.bpf.c."""
    source, destination, source_port, destination_port, _ = ENDPOINTS.unpack(raw)
    return Connection(
        address_text(source), source_port, address_text(destination), destination_port
    )


def tcp_sockets() -> list[TcpSocket]:
    """Both families, in the calling thread's network namespace. OSError as netlink gives it."""
    return [found for family in (socket.AF_INET, socket.AF_INET6) for found in _dump_family(family)]


def _dump_family(family: int) -> Iterator[TcpSocket]:
    request = struct.pack(
        "=BBBBI48x", family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), 0, _STATES
    )
    header = _HEADER.pack(
        _HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST | _NLM_F_DUMP, 1, 0
    )
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as netlink:
        netlink.settimeout(2.0)
        netlink.send(header + request)
        done = False
        while not done:
            sockets, done = parse_dump(netlink.recv(1 << 18))
            yield from sockets


def open_destroy_listener() -> socket.socket:
    """Hear of each TCP socket that is destroyed in the calling thread's network namespace.

    The kernel (4.4) broadcasts its last tcp_info then, in the form of `parse_dump`. The socket
    keeps the namespace alive: close it when the namespace's last process has gone.
    """
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    listener = socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _LISTENER_BYTES)
        listener.bind((0, _DESTROY_GROUPS))
    except OSError:
        listener.close()
        raise
    return listener


def read_destroyed(listener: socket.socket) -> tuple[list[TcpSocket], int]:
    """What was heard since the last call: (sockets, times that the kernel dropped messages)."""
    heard: list[TcpSocket] = []
    overflows = 0
    while True:
        try:
            sockets, _ = parse_dump(listener.recv(1 << 16))
        except BlockingIOError:
            return heard, overflows
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            overflows += 1
            continue
        heard += sockets


def parse_dump(data: bytes) -> tuple[list[TcpSocket], bool]:
    """One datagram of answers: (sockets, whether the dump ended). OSError when it was refused."""
    sockets: list[TcpSocket] = []
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if kind == _NLMSG_DONE:
            return sockets, True
        if kind == _NLMSG_ERROR:
            code = -struct.unpack_from("=i", data, at + _HEADER.size)[0]
            raise OSError(code, "sock_diag refused the dump")
        if length < _HEADER.size:
            raise OSError(5, "sock_diag sent a message of no length")
        sockets.append(parse_message(data[at + _HEADER.size : at + length]))
        at += (length + 3) & ~3
    return sockets, False


def parse_message(body: bytes) -> TcpSocket:
    """One struct inet_diag_msg and its attributes."""
    family, state, _, _, sport, dport, source, destination, _, cookie, _, unread, _, _, inode = (
        _MESSAGE.unpack_from(body)
    )
    if family == socket.AF_INET:
        source, destination = _V4_MAPPED + source[:4], _V4_MAPPED + destination[:4]
    endpoints = ENDPOINTS.pack(
        source, destination, int.from_bytes(sport, "big"), int.from_bytes(dport, "big"), 0
    )
    return TcpSocket(endpoints, inode, cookie, state, unread, _tcp_info(body, _MESSAGE.size))


def _tcp_info(body: bytes, at: int) -> TcpInfo:
    while at + 4 <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        if kind == _INET_DIAG_INFO:
            return TcpInfo(body[at + 4 : at + length])
        at += max((length + 3) & ~3, 4)
    return TcpInfo()
