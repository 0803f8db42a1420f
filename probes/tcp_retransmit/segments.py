"""`tcp_retrans_segments_total` and `tcp_segments_out_total`, from tcp_info of each socket.

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

    from engine.readings import Process
    from probes.tcp_retransmit.sockdiag import TcpSocket

    Key: TypeAlias = tuple[int, int]  # network namespace, socket cookie
    OwnerOf: TypeAlias = Callable[[int, TcpSocket], Process | None]

RETRANSMITTED, OUT = "tcp_retrans_segments_total", "tcp_segments_out_total"
_WRAP = 1 << 32


class Segments:
    """Growth of each socket's counters since it was last seen, summed by owner."""

    def __init__(self) -> None:
        self._last: dict[Key, tuple[int, int]] = {}
        self._owner: dict[Key, Process] = {}
        self._growth: dict[Process, list[int]] = defaultdict(lambda: [0, 0])

    def baseline(self, sockets: Mapping[int, Iterable[TcpSocket]]) -> None:
        """Sockets that are older than the agent count from their present values."""
        for namespace, listed in sockets.items():
            for each in listed:
                key = (namespace, each.cookie)
                self._last[key] = (each.retransmitted_segments, each.segments_out)

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
            self._add(namespace, each, owner_of)
            self._last.pop((namespace, each.cookie), None)
            self._owner.pop((namespace, each.cookie), None)

    def forget(self, namespace: int) -> None:
        """A namespace that has no owner left."""
        for key in [k for k in self._last if k[0] == namespace]:
            del self._last[key]
            self._owner.pop(key, None)

    def _add(self, namespace: int, each: TcpSocket, owner_of: OwnerOf) -> None:
        key = (namespace, each.cookie)
        owner = self._owner.get(key) or owner_of(namespace, each)
        if owner is None:
            return  # nothing is remembered, so that a later owner gets all of it
        self._owner[key] = owner
        retransmitted, out = self._last.get(key, (0, 0))
        growth = self._growth[owner]
        growth[0] += (each.retransmitted_segments - retransmitted) % _WRAP
        growth[1] += (each.segments_out - out) % _WRAP
        self._last[key] = (each.retransmitted_segments, each.segments_out)

    def drain(self) -> list[Count]:
        """What grew since the last call. Not counted in the kernel, so of no weight in drift."""
        counts = [
            Count(metric, owner, float(delta))
            for owner, growth in self._growth.items()
            for metric, delta in zip((RETRANSMITTED, OUT), growth, strict=True)
            if delta
        ]
        self._growth.clear()
        return counts
