"""How a process's connections stand: the worst of those that are in use, and what is queued.

A series per connection would have no bound, so the single connection is told in events only.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING

from engine.readings import Event, Level
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.readings import FieldValue, Process
    from probes.tcp_retransmit.sockdiag import TcpSocket

CONNECTION = "tcp_connection"


@dataclass(slots=True)
class _Standing:
    connections: int = 0
    unacked: int = 0
    unsent: int = 0
    unread: int = 0
    rtt: float = 0.0
    min_rtt: float = 0.0
    cwnd: int = 0
    rate: float = 0.0

    def add(self, each: TcpSocket, *, used: bool) -> None:
        info = each.info
        self.connections += 1
        self.unacked += info.unacked_segments
        self.unsent += info.unsent_bytes
        self.unread += each.unread_bytes
        if not used:
            return  # what an idle connection measured was true long ago
        if info.rtt_seconds > self.rtt:
            self.rtt, self.min_rtt = info.rtt_seconds, info.min_rtt_seconds
        self.cwnd = min(self.cwnd or info.cwnd_segments, info.cwnd_segments)
        if info.delivery_rate:
            self.rate = min(self.rate or info.delivery_rate, info.delivery_rate)

    def levels(self, process: Process) -> Iterator[Level]:
        yield Level("tcp_connections", process, float(self.connections), fold="sum")
        yield Level("tcp_unacked_segments", process, float(self.unacked), fold="sum")
        yield Level("tcp_unsent_bytes", process, float(self.unsent), fold="sum")
        yield Level("tcp_unread_bytes", process, float(self.unread), fold="sum")
        if self.rtt:
            yield Level("tcp_rtt_seconds", process, self.rtt)
        if self.min_rtt:
            yield Level("tcp_rtt_min_seconds", process, self.min_rtt)
        if self.cwnd:
            yield Level("tcp_cwnd_segments", process, float(self.cwnd), fold="min")
        if self.rate:
            yield Level("tcp_delivery_rate_bytes_per_second", process, self.rate, fold="min")


@dataclass(slots=True)
class Gauges:
    """What the last look gave, told again with each flush until the next one."""

    detail_limit: int = 20
    _standing: dict[Process, _Standing] = field(default_factory=dict)
    _worst: list[tuple[int, Process, TcpSocket]] = field(default_factory=list)
    _segments: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    _first: bool = True

    def look(self, owned: list[tuple[int, Process, TcpSocket]]) -> None:
        """(namespace, owner, socket) of every owned socket there is."""
        standing: dict[Process, _Standing] = defaultdict(_Standing)
        segments: dict[tuple[int, int], tuple[int, int]] = {}
        worst: list[tuple[int, Process, TcpSocket]] = []
        for namespace, process, each in owned:
            key = (namespace, each.cookie)
            info = each.info
            now = (info.segments_out + info.segments_in, info.retransmitted_segments)
            # What is older than the agent is not told as having happened just now.
            before = self._segments.get(key, now if self._first else (0, 0))
            segments[key] = now
            standing[process].add(each, used=now[0] != before[0])
            if now[1] > before[1]:
                worst.append((now[1] - before[1], process, each))
        worst.sort(key=lambda entry: -entry[0])
        self._standing, self._segments, self._first = dict(standing), segments, False
        self._worst = worst[: self.detail_limit]

    def levels(self) -> Iterator[Level]:
        """The standing of each process."""
        for process, standing in self._standing.items():
            yield from standing.levels(process)

    def events(self, comm_of: dict[Process, str]) -> Iterator[Event]:
        """The connections that had most segments sent again between the last two looks; once."""
        worst, self._worst = self._worst, []
        for segments, process, each in worst:
            connection, info = each.connection, each.info
            fields: tuple[tuple[str, FieldValue], ...] = (
                ("comm", comm_of.get(process, "")),
                ("src", connection.source),
                ("sport", connection.source_port),
                ("dst", connection.destination),
                ("dport", connection.destination_port),
                ("segments", segments),
                ("rtt_seconds", info.rtt_seconds),
                ("cwnd_segments", info.cwnd_segments),
                ("unacked_segments", info.unacked_segments),
                ("unsent_bytes", info.unsent_bytes),
                ("unread_bytes", each.unread_bytes),
                ("delivery_rate", info.delivery_rate),
            )
            yield Event(CONNECTION, int(time.time() * 1000), process, fields)

    def forget(self, process: Process) -> None:
        """It has ended."""
        self._standing.pop(process, None)
