"""struct tcp_info (include/uapi/linux/tcp.h), to which kernels only append."""

from __future__ import annotations

import struct

from rules.slotted import dataclass

_U32, _U64 = struct.Struct("=I"), struct.Struct("=Q")
_MICROSECONDS = 1e6
# States in which the peer's FIN has been received; it counts as a byte in tcpi_bytes_received.
_FIN_RECEIVED = frozenset({8, 9, 11})  # CLOSE_WAIT, LAST_ACK, CLOSING


@dataclass(frozen=True, slots=True)
class TcpInfo:
    """One socket's figures; a field that the kernel's structure does not have yet is 0."""

    raw: bytes = b""

    def _u32(self, offset: int) -> int:
        return int(_U32.unpack_from(self.raw, offset)[0]) if len(self.raw) >= offset + 4 else 0

    def _u64(self, offset: int) -> int:
        return int(_U64.unpack_from(self.raw, offset)[0]) if len(self.raw) >= offset + 8 else 0

    @property
    def retransmitted_segments(self) -> int:
        """tcpi_total_retrans, 32 bits."""
        return self._u32(100)

    @property
    def segments_out(self) -> int:
        """tcpi_segs_out (4.2), retransmitted ones included, 32 bits."""
        return self._u32(136)

    @property
    def segments_in(self) -> int:
        """tcpi_segs_in (4.2), 32 bits."""
        return self._u32(140)

    @property
    def bytes_out(self) -> int:
        """Payload that was sent once: tcpi_bytes_sent less tcpi_bytes_retrans (4.19).

        Before, tcpi_bytes_acked, which counts SYN and FIN as a byte each.
        """
        if len(self.raw) >= 216:
            return max(0, self._u64(200) - self._u64(208))
        return self._u64(120)

    def bytes_in(self, state: int) -> int:
        """Payload that was received in order: tcpi_bytes_received less the FIN, where `state`
        tells that there was one.
        """  # noqa: D205 - one sentence
        received = self._u64(128)
        return received - 1 if state in _FIN_RECEIVED and received else received

    @property
    def busy_microseconds(self) -> tuple[int, int, int]:
        """Time with data outstanding: all of it, and where the receiver's window or the send
        buffer was the limit (tcpi_busy_time, tcpi_rwnd_limited, tcpi_sndbuf_limited; 4.10).
        """  # noqa: D205 - one sentence
        return self._u64(168), self._u64(176), self._u64(184)

    @property
    def rtt_seconds(self) -> float:
        """The smoothed round trip, tcpi_rtt."""
        return self._u32(68) / _MICROSECONDS

    @property
    def min_rtt_seconds(self) -> float:
        """tcpi_min_rtt (4.6): the shortest within five minutes, 0 when unknown (kernel: ~0)."""
        shortest = self._u32(148)
        return 0.0 if shortest == 0xFFFFFFFF else shortest / _MICROSECONDS

    @property
    def cwnd_segments(self) -> int:
        """tcpi_snd_cwnd."""
        return self._u32(80)

    @property
    def unacked_segments(self) -> int:
        """tcpi_unacked: sent and not acknowledged."""
        return self._u32(24)

    @property
    def unsent_bytes(self) -> int:
        """tcpi_notsent_bytes (4.6): written by the process, not sent yet."""
        return self._u32(144)

    @property
    def delivery_rate(self) -> float:
        """Bytes a second that reach the peer (tcpi_delivery_rate, 4.9); 0 when the process, not the
        network, was the limit.
        """  # noqa: D205 - one sentence
        limited = len(self.raw) > 7 and self.raw[7] & 1
        return 0.0 if limited else float(self._u64(160))
