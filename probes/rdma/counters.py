"""Which counter files mean trouble, and what each is called whatever the vendor.

Names are those of the drivers' `rdma_stat_desc` tables (drivers/infiniband/hw/*, sw/rxe: mlx5, hns,
bnxt_re, irdma, efa, mana, rxe) and of the PMA port counters (drivers/infiniband/core/sysfs.c).
"""

from __future__ import annotations

from rules.slotted import dataclass

RETRANSMITS, CONGESTION = "rdma_retrans_total", "rdma_congestion_total"
ERRORS, WAIT = "rdma_errors_total", "rdma_xmit_wait_ticks_total"


@dataclass(frozen=True, slots=True)
class Counter:
    """What a file means. `ceiling`: where the hardware stops counting, 0 when it wraps instead."""

    metric: str
    cause: str
    ceiling: int = 0


def _hardware() -> dict[str, Counter]:
    """Files of hw_counters."""
    table = {
        RETRANSMITS: {
            # The requester waited in vain for an acknowledgement.
            "timeout": (
                "local_ack_timeout_err",  # mlx5, hns
                "to_retransmits",  # bnxt_re
                "retrans_timeout_events",  # efa
                "requester_timeout",  # mana
            ),
            # The requester was told of a gap.
            "sequence_nak": (
                "packet_seq_err",
                "seq_err_naks_rcvd",
                "requester_oos_nak",
                "rcvd_seq_err",  # rxe
            ),
            "implied_nak": (
                "implied_nak_seq_err",
                "missing_resp",
                "missin_resp",  # bnxt_re before it was spelled right
                "requester_implicit_nak",
            ),
            "rnr_nak": (
                "rnr_nak_retry_err",
                "rnr_naks_rcvd",
                "requester_rnr_nak",
                "rcvd_rnr_err",
                "RNR received",  # irdma
            ),
            # The responder saw a gap, or the same request again: the peer's retransmission.
            "out_of_sequence": (
                "out_of_sequence",
                "oos_drop_count",
                "responder_oos",
                "out_of_seq_request",
            ),
            "duplicate_request": ("duplicate_request", "dup_req", "responder_dup_request"),
            "adaptive": ("roce_adp_retrans",),
            "adaptive_timeout": ("roce_adp_retrans_to",),
            "retry": ("completer_retry_err",),  # rxe: time-outs and naks alike
            "packets": ("retrans_pkts",),  # efa
            "segments": ("tcpRetransSegs", "RetransSegs"),  # irdma
        },
        CONGESTION: {
            "cnp_sent": ("np_cnp_sent", "tx_cnp_pkts", "cnpSent"),
            "cnp_handled": ("rp_cnp_handled", "rx_cnp_pkts", "cnpHandled"),
            "cnp_ignored": ("rp_cnp_ignored", "cnpIgnored"),
            "ecn_marked": ("np_ecn_marked_roce_packets", "rx_ecn_marked_pkts", "RxECNMrkd"),
            "slow_restart": ("roce_slow_restart",),
            "impaired_connection": ("impaired_remote_conn_events",),
        },
        ERRORS: {
            "retry_exceeded": ("max_retry_exceeded", "retry_exceeded_err"),
            "rnr_retry_exceeded": ("retry_rnr_exceeded_err",),
            "unresponsive_remote": ("unresponsive_remote_events",),
            "out_of_buffer": ("out_of_buffer", "rx_out_of_buffer"),
            "receive_drops": ("rx_drops",),
            "checksum": ("rx_icrc_encapsulated",),
            "send": ("send_err",),
            "link_downed": ("link_downed",),  # rxe has it here
        },
    }
    return {
        name: Counter(metric, cause)
        for metric, causes in table.items()
        for cause, names in causes.items()
        for name in names
    }


def _port() -> dict[str, Counter]:
    """Files of counters. The PMA's counters stop at their ceiling (InfiniBand, 16.1.3.5)."""
    byte, word, long = (1 << 8) - 1, (1 << 16) - 1, (1 << 32) - 1
    return {
        "symbol_error": Counter(ERRORS, "symbol_error", word),
        "link_error_recovery": Counter(ERRORS, "link_error_recovery", byte),
        "link_downed": Counter(ERRORS, "link_downed", byte),
        "port_rcv_errors": Counter(ERRORS, "receive_errors", word),
        "port_rcv_remote_physical_errors": Counter(ERRORS, "remote_physical_errors", word),
        "port_xmit_discards": Counter(ERRORS, "transmit_discards", word),
        "local_link_integrity_errors": Counter(ERRORS, "link_integrity", (1 << 4) - 1),
        "excessive_buffer_overrun_errors": Counter(ERRORS, "buffer_overrun", (1 << 4) - 1),
        "port_xmit_wait": Counter(WAIT, "no_credit", long),
    }


# By folder of a port, then by file.
KNOWN: dict[str, dict[str, Counter]] = {"hw_counters": _hardware(), "counters": _port()}

# A 32-bit counter (mlx5's Q counters, irdma) that fell grew by less than this; else it was reset.
_WRAP = 1 << 32
_PLAUSIBLE = 1 << 28


def growth(before: int, now: int) -> int:
    """By how much a counter grew. One that fell has wrapped at 32 bits, or was reset to 0."""
    if now >= before:
        return now - before
    wrapped = now + _WRAP - before
    return wrapped if before < _WRAP and wrapped < _PLAUSIBLE else now
