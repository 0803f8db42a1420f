from __future__ import annotations

import struct

from engine.readings import Process
from probes.tcp_retransmit.gauges import Gauges
from probes.tcp_retransmit.sockdiag import ENDPOINTS, TcpSocket
from probes.tcp_retransmit.tcpinfo import TcpInfo

ME = Process(10, 100)


def _socket(cookie: int, out: int, **figures: int) -> TcpSocket:
    raw = bytearray(232)
    offsets = {"rtt": 68, "min_rtt": 148, "cwnd": 80, "unacked": 24, "unsent": 144, "again": 100}
    struct.pack_into("=I", raw, 136, out)
    for name, offset in offsets.items():
        struct.pack_into("=I", raw, offset, figures.get(name, 0))
    struct.pack_into("=Q", raw, 160, figures.get("rate", 0))
    raw[7] = figures.get("limited", 0)
    endpoints = ENDPOINTS.pack(bytes(15) + b"\1", bytes(15) + b"\2", 1, 2, 0)
    return TcpSocket(endpoints, 7, cookie, 1, figures.get("unread", 0), TcpInfo(bytes(raw)))


def _levels(gauges: Gauges) -> dict[str, float]:
    return {level.metric: level.value for level in gauges.levels()}


def test_the_worst_of_the_connections_in_use_stands_for_all_and_queues_add_up() -> None:
    gauges = Gauges()
    sockets = [
        _socket(1, 50, rtt=100, min_rtt=90, cwnd=10, unacked=3, unsent=1000, unread=5, rate=900),
        _socket(2, 60, rtt=4000, min_rtt=200, cwnd=4, unacked=2, rate=100, limited=1),
    ]
    gauges.look([(1, ME, each) for each in sockets])
    gauges.look([(1, ME, _socket(1, 51, rtt=100, min_rtt=90, cwnd=10, rate=900))])
    gauges.look([(1, ME, _socket(1, 51, rtt=100, unread=7)), (1, ME, sockets[1])])
    assert _levels(gauges) == {
        "tcp_connections": 2,
        "tcp_unacked_segments": 2,
        "tcp_unsent_bytes": 0,
        "tcp_unread_bytes": 7,
        "tcp_rtt_seconds": 0.004,
        "tcp_rtt_min_seconds": 0.0002,
        "tcp_cwnd_segments": 4,
    }
    assert _levels(gauges) == _levels(gauges)  # told again until the next look


def test_only_the_connections_with_most_sent_again_are_told_one_by_one() -> None:
    gauges = Gauges(detail_limit=2)
    gauges.look([(1, ME, _socket(1, 10, again=5))])
    assert list(gauges.events({})) == []  # older than the agent
    gauges.look([(1, ME, _socket(n, 20, again=5 + n, rtt=1000)) for n in (1, 2, 3)])
    told = [dict(event.fields) for event in gauges.events({ME: "python"})]
    assert [fields["segments"] for fields in told] == [8, 7]
    assert (told[0]["comm"], told[0]["src"], told[0]["rtt_seconds"]) == ("python", "::1", 0.001)
    assert list(gauges.events({})) == []


def test_a_rank_with_several_processes_has_the_smallest_window_of_them() -> None:
    gauges = Gauges()
    gauges.look([])
    gauges.look([(1, ME, _socket(1, 10, cwnd=3, rate=50, rtt=5))])
    folds = {level.metric: level.fold for level in gauges.levels()}
    assert folds["tcp_cwnd_segments"] == folds["tcp_delivery_rate_bytes_per_second"] == "min"
    assert folds["tcp_rtt_seconds"] == "max"
