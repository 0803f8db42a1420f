"""Counters of tcp_info, summed by owner as they grow: segments, bytes, time busy.

One retransmitted skb can stand for many segments; tcp_info counts segments. A socket's last value
comes from the kernel's destroy broadcast, so that a socket that closes loses nothing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from engine.readings import Count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

    from engine.readings import Pairs, Process
    from probes.tcp_retransmit.sockdiag import TcpSocket

    Key: TypeAlias = tuple[int, int]  # network namespace, socket cookie
    OwnerOf: TypeAlias = Callable[[int, TcpSocket], Process | None]
    Values: TypeAlias = tuple[int, ...]

RETRANSMITTED, OUT = "tcp_retrans_segments_total", "tcp_segments_out_total"
BYTES, BUSY = "tcp_bytes_total", "tcp_busy_seconds_total"
_WRAP = 1 << 32

# Metric, labels, unit's share of one; the order of `values_of`. The first two wrap at 32 bits.
_SERIES: tuple[tuple[str, Pairs, float], ...] = (
    (RETRANSMITTED, (), 1.0),
    (OUT, (), 1.0),
    (BYTES, (("direction", "sent"),), 1.0),
    (BYTES, (("direction", "received"),), 1.0),
    (BUSY, (("limit", "network"),), 1e-6),
    (BUSY, (("limit", "receiver"),), 1e-6),
    (BUSY, (("limit", "send_buffer"),), 1e-6),
)
COUNTERS = tuple((metric, labels) for metric, labels, _ in _SERIES)


def values_of(each: TcpSocket) -> Values:
    """A socket's counters now, in the order of COUNTERS."""
    info = each.info
    busy, receiver, send_buffer = info.busy_microseconds
    return (
        info.retransmitted_segments,
        info.segments_out,
        info.bytes_out,
        info.bytes_in(each.state),
        max(0, busy - receiver - send_buffer),
        receiver,
        send_buffer,
    )


class Totals:
    """Growth of each socket's counters since it was last seen, summed by owner."""

    def __init__(self) -> None:
        self._last: dict[Key, Values] = {}
        self._owner: dict[Key, Process] = {}
        self._growth: dict[Process, list[int]] = defaultdict(lambda: [0] * len(_SERIES))

    def baseline(self, sockets: Mapping[int, Iterable[TcpSocket]]) -> None:
        """Sockets that are older than the agent count from their present values."""
        for namespace, listed in sockets.items():
            for each in listed:
                self._last[namespace, each.cookie] = values_of(each)

    def owner(self, namespace: int, cookie: int) -> Process | None:
        """Who was seen to hold a socket."""
        return self._owner.get((namespace, cookie))

    def see(self, namespace: int, sockets: Iterable[TcpSocket], owner_of: OwnerOf) -> None:
        """Open sockets of a namespace, all of them: others are forgotten."""
        present = set()
        for each in sockets:
            present.add(each.cookie)
            self._add(namespace, each, owner_of)
        for key in [k for k in self._last if k[0] == namespace and k[1] not in present]:
            del self._last[key]
            self._owner.pop(key, None)

    def close(self, namespace: int, sockets: Iterable[TcpSocket], owner_of: OwnerOf) -> None:
        """Sockets that were destroyed, with their last values."""
        for each in sockets:
            self._add(namespace, each, owner_of, last=True)
            self._last.pop((namespace, each.cookie), None)
            self._owner.pop((namespace, each.cookie), None)

    def forget(self, namespace: int) -> None:
        """A namespace that has no owner left."""
        for key in [k for k in self._last if k[0] == namespace]:
            del self._last[key]
            self._owner.pop(key, None)

    def _add(
        self, namespace: int, each: TcpSocket, owner_of: OwnerOf, *, last: bool = False
    ) -> None:
        key = (namespace, each.cookie)
        # Whoever holds it now: it may have been handed on. A destroyed one is held by nobody.
        known = self._owner.get(key)
        owner = (
            (known or owner_of(namespace, each)) if last else (owner_of(namespace, each) or known)
        )
        if owner is None:
            return  # nothing is remembered, so that a later owner gets all of it
        self._owner[key] = owner
        now = values_of(each)
        before = self._last.get(key, (0,) * len(now))
        growth = self._growth[owner]
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            growth[index] += (new - old) % _WRAP if index < 2 else max(0, new - old)
        self._last[key] = now

    def drain(self) -> list[Count]:
        """What grew since the last call. Not counted in the kernel, so of no weight in drift."""
        counts = [
            Count(metric, owner, delta * scale, labels)
            for owner, growth in self._growth.items()
            for (metric, labels, scale), delta in zip(_SERIES, growth, strict=True)
            if delta
        ]
        self._growth.clear()
        return counts
