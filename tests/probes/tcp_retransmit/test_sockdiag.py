from __future__ import annotations

import errno
import socket
import struct

import pytest

from probes.tcp_retransmit.flow import Connection
from probes.tcp_retransmit.sockdiag import parse_dump, tcp_sockets

TCP_INFO = bytes(100) + struct.pack("=I", 17) + bytes(32) + struct.pack("=I", 9000) + bytes(40)


def _message(info: bytes, *, inode: int = 77, cookie: int = 5) -> bytes:
    body = struct.pack(
        "=BBBBHH16s16sIQIIIII",
        socket.AF_INET,
        1,
        0,
        0,
        socket.htons(29500),
        socket.htons(40000),
        socket.inet_aton("10.0.0.1"),
        socket.inet_aton("10.0.0.2"),
        0,
        cookie,
        0,
        40,
        0,
        1000,
        inode,
    )
    unknown = struct.pack("=HHI", 8, 99, 1)
    attribute = struct.pack("=HH", 4 + len(info), 2) + info
    body += unknown + attribute
    return struct.pack("=IHHII", 16 + len(body), 20, 2, 1, 0) + body


DONE = struct.pack("=IHHIIi", 20, 3, 2, 1, 0, 0)
CONNECTION = Connection("10.0.0.1", 29500, "10.0.0.2", 40000)


def test_a_dump_gives_each_socket_with_its_segments() -> None:
    sockets, done = parse_dump(_message(TCP_INFO) + _message(TCP_INFO, inode=78, cookie=6))
    assert [(s.connection, s.inode, s.cookie, s.state, s.unread_bytes) for s in sockets] == [
        (CONNECTION, 77, 5, 1, 40),
        (CONNECTION, 78, 6, 1, 40),
    ]
    assert {(s.info.retransmitted_segments, s.info.segments_out) for s in sockets} == {(17, 9000)}
    assert not done
    assert parse_dump(DONE) == ([], True)


def test_an_old_kernels_shorter_tcp_info_has_no_segments_out() -> None:
    ((found,), _) = parse_dump(_message(TCP_INFO[:104]))
    assert (found.info.retransmitted_segments, found.info.segments_out) == (17, 0)


def test_a_refused_dump_is_an_error() -> None:
    refused = struct.pack("=IHHIIi", 36, 2, 0, 1, 0, -errno.EPERM) + bytes(16)
    with pytest.raises(OSError, match="refused") as caught:
        parse_dump(refused)
    assert caught.value.errno == errno.EPERM


def test_the_running_kernel_lists_our_own_connection_without_root() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
    ):
        client.sendall(b"x")
        source, destination = client.getsockname(), client.getpeername()
        mine = [s for s in tcp_sockets() if s.connection == Connection(*source, *destination)]
    assert len(mine) == 1
    assert mine[0].info.segments_out >= 2
