from __future__ import annotations

import struct

from engine.readings import Process
from probes.tcp_retransmit.sockdiag import ENDPOINTS, TcpSocket
from probes.tcp_retransmit.tcpinfo import TcpInfo
from probes.tcp_retransmit.totals import OUT, RETRANSMITTED, Totals

ME, OTHER = Process(10, 100), Process(11, 100)
HERE = 4026531840


def info(
    *, retransmitted: int = 0, out: int = 0, sent: int = 0, again: int = 0, received: int = 0
) -> TcpInfo:
    raw = bytearray(232)
    for offset, value in ((100, retransmitted), (136, out)):
        struct.pack_into("=I", raw, offset, value)
    for offset, value in ((128, received), (200, sent), (208, again)):
        struct.pack_into("=Q", raw, offset, value)
    return TcpInfo(bytes(raw))


def _socket(retransmitted: int, out: int, *, state: int = 1, **more: int) -> TcpSocket:
    figures = info(retransmitted=retransmitted, out=out, **more)
    return TcpSocket(ENDPOINTS.pack(bytes(16), bytes(16), 1, 2, 0), 7, 1, state, 0, figures)


def _mine(_namespace: int, _socket: TcpSocket) -> Process:
    return ME


def _nobodys(_namespace: int, _socket: TcpSocket) -> None:
    return None


def _drained(totals: Totals) -> dict[str, float]:
    counts = totals.drain()
    assert {count.process for count in counts} <= {ME}
    return {count.metric + "".join(v for _, v in count.labels): count.delta for count in counts}


def test_a_new_socket_counts_from_zero_and_then_by_its_growth() -> None:
    totals = Totals()
    totals.see(HERE, [_socket(2, 100)], _mine)
    assert _drained(totals) == {RETRANSMITTED: 2, OUT: 100}
    totals.see(HERE, [_socket(2, 130)], _mine)
    assert _drained(totals) == {OUT: 30}


def test_bytes_are_payload_sent_once_and_received_without_the_fin() -> None:
    totals = Totals()
    totals.see(HERE, [_socket(0, 0, sent=1500, again=500, received=21, state=8)], _mine)
    assert _drained(totals) == {"tcp_bytes_totalsent": 1000, "tcp_bytes_totalreceived": 20}


def test_a_socket_older_than_the_agent_counts_from_its_first_sight() -> None:
    totals = Totals()
    totals.baseline({HERE: [_socket(50, 5000)]})
    totals.see(HERE, [_socket(51, 5100)], _mine)
    assert _drained(totals) == {RETRANSMITTED: 1, OUT: 100}


def test_what_a_socket_sent_before_its_owner_was_known_is_not_lost() -> None:
    totals = Totals()
    totals.see(HERE, [_socket(1, 10)], _nobodys)
    assert _drained(totals) == {}
    totals.see(HERE, [_socket(1, 15)], _mine)
    assert _drained(totals) == {RETRANSMITTED: 1, OUT: 15}


def test_a_socket_that_was_handed_on_counts_for_its_new_holder_from_then_on() -> None:
    totals = Totals()
    totals.see(HERE, [_socket(1, 10)], _mine)
    totals.see(HERE, [_socket(1, 15)], lambda _namespace, _socket: OTHER)
    assert {(c.process, c.metric): c.delta for c in totals.drain()} == {
        (ME, RETRANSMITTED): 1,
        (ME, OUT): 10,
        (OTHER, OUT): 5,
    }


def test_a_destroyed_socket_gives_its_last_values_though_nobody_holds_it_any_more() -> None:
    totals = Totals()
    totals.see(HERE, [_socket(1, 10)], _mine)
    totals.drain()
    totals.close(HERE, [_socket(3, 12)], _nobodys)
    assert _drained(totals) == {RETRANSMITTED: 2, OUT: 2}


def test_a_counter_of_32_bits_wraps() -> None:
    totals = Totals()
    totals.baseline({HERE: [_socket(0, 2**32 - 5)]})
    totals.see(HERE, [_socket(0, 5)], _mine)
    assert _drained(totals) == {OUT: 10}
