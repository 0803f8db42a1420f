"""RetransSegs and tcp_info: what one has and the other has not, and why."""

from __future__ import annotations

import struct

from probes.tcp_retransmit.check import Check
from probes.tcp_retransmit.sockdiag import TcpSocket
from probes.tcp_retransmit.tcpinfo import TcpInfo

HERE, THERE = 1, 2


def _socket(cookie: int, retransmitted: int) -> TcpSocket:
    raw = bytearray(104)
    struct.pack_into("=I", raw, 100, retransmitted)
    return TcpSocket(b"", 7, cookie, 1, 0, TcpInfo(bytes(raw)))


def _look(
    check: Check, kernel: int, *sockets: TcpSocket, handshakes: int = 0, namespace: int = HERE
) -> dict[str, float]:
    counters = {"RetransSegs": kernel, "TCPSynRetrans": handshakes}
    counts = check.see(namespace, counters, sockets)
    return {"".join(value for _, value in count.labels): count.delta for count in counts}


def test_the_first_look_is_where_counting_begins() -> None:
    check = Check()
    assert _look(check, 500, _socket(1, 40)) == {}
    seen = _look(check, 507, _socket(1, 45), _socket(2, 2))
    assert (seen["kernel"], seen["sockets"]) == (7, 7)
    assert check.difference == dict.fromkeys(check.difference, 0)


def test_a_destroyed_socket_counts_to_its_end() -> None:
    check = Check()
    _look(check, 0)
    check.close(HERE, [_socket(1, 3)], 0)
    assert _look(check, 3)["sockets"] == 3
    check.close(HERE, [_socket(1, 3)], 0)  # another socket: cookies are not used again
    assert _look(check, 6)["sockets"] == 3


def test_what_no_socket_has_is_unseen_once_two_looks_agree() -> None:
    check = Check()
    _look(check, 0)
    assert _look(check, 5)["unseen"] == 0
    assert _look(check, 5)["unseen"] == 5
    assert _look(check, 5)["unseen"] == 0
    assert check.difference["unseen"] == 5


def test_a_retransmit_between_the_two_readings_is_no_difference() -> None:
    check = Check()
    _look(check, 0)
    _look(check, 5, _socket(1, 6))
    _look(check, 6, _socket(1, 6))
    assert check.difference == dict.fromkeys(check.difference, 0)


def test_handshakes_sent_again_without_a_socket_and_lost_broadcasts_have_their_own_reason() -> None:
    check = Check()
    _look(check, 0)
    for _ in range(2):
        _look(check, 3, handshakes=3)
    assert check.difference["handshake"] == 3
    check.close(HERE, [], 1)
    for _ in range(2):
        _look(check, 13, handshakes=3)
    assert check.difference["broadcast_lost"] == 10
    assert check.difference["unseen"] == 0


def test_namespaces_are_compared_each_with_itself() -> None:
    check = Check()
    for namespace in (HERE, THERE):
        _look(check, 0, namespace=namespace)
    for _ in range(2):
        _look(check, 5, namespace=HERE)
        _look(check, 0, _socket(1, 5), namespace=THERE)
    assert (check.difference["unseen"], check.difference["surplus"]) == (5, 5)
