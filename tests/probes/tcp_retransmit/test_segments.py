from __future__ import annotations

from engine.readings import Process
from probes.tcp_retransmit.flow import Connection
from probes.tcp_retransmit.segments import OUT, RETRANSMITTED, Segments
from probes.tcp_retransmit.sockdiag import TcpSocket

ME = Process(10, 100)
HERE = 4026531840


def _socket(retransmitted: int, out: int, cookie: int = 1) -> TcpSocket:
    return TcpSocket(Connection("a", 1, "b", 2), 7, cookie, retransmitted, out)


def _mine(_namespace: int, _socket: TcpSocket) -> Process:
    return ME


def _nobodys(_namespace: int, _socket: TcpSocket) -> None:
    return None


def _drained(segments: Segments) -> dict[str, float]:
    counts = segments.drain()
    assert {count.process for count in counts} <= {ME}
    return {count.metric: count.delta for count in counts}


def test_a_new_socket_counts_from_zero_and_then_by_its_growth() -> None:
    segments = Segments()
    segments.see(HERE, [_socket(2, 100)], _mine)
    assert _drained(segments) == {RETRANSMITTED: 2, OUT: 100}
    segments.see(HERE, [_socket(2, 130)], _mine)
    assert _drained(segments) == {OUT: 30}


def test_a_socket_older_than_the_agent_counts_from_its_first_sight() -> None:
    segments = Segments()
    segments.baseline({HERE: [_socket(50, 5000)]})
    segments.see(HERE, [_socket(51, 5100)], _mine)
    assert _drained(segments) == {RETRANSMITTED: 1, OUT: 100}


def test_what_a_socket_sent_before_its_owner_was_known_is_not_lost() -> None:
    segments = Segments()
    segments.see(HERE, [_socket(1, 10)], _nobodys)
    assert _drained(segments) == {}
    segments.see(HERE, [_socket(1, 15)], _mine)
    assert _drained(segments) == {RETRANSMITTED: 1, OUT: 15}


def test_a_destroyed_socket_gives_its_last_values_though_nobody_holds_it_any_more() -> None:
    segments = Segments()
    segments.see(HERE, [_socket(1, 10)], _mine)
    segments.drain()
    segments.close(HERE, [_socket(3, 12)], _nobodys)
    assert _drained(segments) == {RETRANSMITTED: 2, OUT: 2}


def test_a_counter_of_32_bits_wraps() -> None:
    segments = Segments()
    segments.baseline({HERE: [_socket(0, 2**32 - 5)]})
    segments.see(HERE, [_socket(0, 5)], _mine)
    assert _drained(segments) == {OUT: 10}
