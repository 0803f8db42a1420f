"""The kernel's RetransSegs held against what tcp_info of all sockets adds up to, by namespace.

Segments with segments: both count each retransmitted segment, tcp_info by socket, RetransSegs for
the namespace, so that what one has and the other has not is a loss of ours, or has a known reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.readings import Count
from probes.tcp_retransmit.mib import RETRANSMITTED, SYN_RETRANSMITTED
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from probes.tcp_retransmit.sockdiag import TcpSocket

SEGMENTS, DIFFERENCE = "tcp_check_segments_total", "tcp_check_difference_total"
# SYN-ACKs sent again for connections that never came to be have no socket; sockets whose last
# figures the kernel did not get rid of; the rest; and what only sockets have seen.
HANDSHAKE, BROADCAST, UNSEEN, SURPLUS = "handshake", "broadcast_lost", "unseen", "surplus"
REASONS = (HANDSHAKE, BROADCAST, UNSEEN, SURPLUS)
_WRAP = 1 << 32


@dataclass(slots=True)
class Namespace:
    """One namespace since its first look. `sockets`: last values by cookie, those above 0 only."""

    kernel: int
    handshakes: int
    counted: int = 0
    overflows: int = 0
    sockets: dict[int, int] = field(default_factory=dict)
    reported: dict[str, int] = field(default_factory=dict)
    # Differences of the look before: what two looks agree on is no race.
    before: dict[str, int] = field(default_factory=dict)
    told: tuple[int, int] = (0, 0)


class Check:
    """`difference`: by reason, for all namespaces together, which never falls."""

    def __init__(self) -> None:
        self._namespaces: dict[int, Namespace] = {}
        self.difference: dict[str, int] = dict.fromkeys(REASONS, 0)

    def see(
        self, namespace: int, counters: Mapping[str, int], sockets: Iterable[TcpSocket]
    ) -> list[Count]:
        """One look: counters and all sockets, read in that order; the first is the baseline."""
        kernel = counters.get(RETRANSMITTED, 0)
        handshakes = counters.get(SYN_RETRANSMITTED, 0)
        known = self._namespaces.get(namespace)
        if known is None:
            known = self._namespaces[namespace] = Namespace(kernel, handshakes)
            known.sockets = _above_zero(sockets)
            return []
        self._take_in(known, sockets, gone=False)
        return self._compare(known, kernel - known.kernel, handshakes - known.handshakes)

    def close(self, namespace: int, sockets: Iterable[TcpSocket], overflows: int) -> None:
        """Destroyed sockets; `overflows`: how often some of them were not heard of."""
        known = self._namespaces.get(namespace)
        if known is not None:
            known.overflows += overflows
            self._take_in(known, sockets, gone=True)

    def told(self, namespace: int) -> tuple[int, int]:
        """(the kernel's count, that of sockets) since the first look at a namespace."""
        known = self._namespaces.get(namespace)
        return (0, 0) if known is None else known.told

    def forget(self, namespace: int) -> None:
        """Nobody of it is left."""
        self._namespaces.pop(namespace, None)

    @staticmethod
    def _take_in(known: Namespace, sockets: Iterable[TcpSocket], *, gone: bool) -> None:
        for each in sockets:
            value = each.info.retransmitted_segments
            if value:
                known.counted += (value - known.sockets.get(each.cookie, 0)) % _WRAP
                known.sockets[each.cookie] = value
            if gone:
                known.sockets.pop(each.cookie, None)

    def _compare(self, known: Namespace, kernel: int, handshakes: int) -> list[Count]:
        missing = kernel - known.counted
        of_handshakes = min(max(0, missing), handshakes)
        rest = max(0, missing - of_handshakes)
        now = {
            HANDSHAKE: of_handshakes,
            BROADCAST: rest if known.overflows else 0,
            UNSEEN: 0 if known.overflows else rest,
            SURPLUS: max(0, -missing),
        }
        counts = [
            Count(SEGMENTS, None, float(max(0, total - before)), (("source", source),))
            for source, total, before in zip(
                ("kernel", "sockets"), (kernel, known.counted), known.told, strict=True
            )
        ]
        known.told = (kernel, known.counted)
        for reason, value in now.items():
            agreed = min(value, known.before.get(reason, 0))
            grown = max(0, agreed - known.reported.get(reason, 0))
            known.reported[reason] = max(agreed, known.reported.get(reason, 0))
            self.difference[reason] += grown
            counts.append(Count(DIFFERENCE, None, float(grown), (("reason", reason),)))
        known.before = now
        return counts


def _above_zero(sockets: Iterable[TcpSocket]) -> dict[int, int]:
    values = ((each.cookie, each.info.retransmitted_segments) for each in sockets)
    return {cookie: value for cookie, value in values if value}
