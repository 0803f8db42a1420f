"""Records of the kernel as events, with what a person wants to know of each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.readings import Event
from probes.tcp_retransmit.flow import Kind
from probes.tcp_retransmit.tallies import ABANDONED, REASONS

if TYPE_CHECKING:
    from engine.readings import FieldValue
    from probes.tcp_retransmit.flow import Record
    from probes.tcp_retransmit.owners import Owner

# A tail-loss probe is no incident: by a kind of its own, evidence of loss leaves it out.
KINDS = {
    Kind.RETRANSMIT: "tcp_retransmit",
    Kind.LOSS_PROBE: "tcp_loss_probe",
    Kind.CONNECT_FAILED: "tcp_connect_failed",
    Kind.RESET: "tcp_reset",
}


def event(record: Record, owner: Owner | None, weight: int = 1) -> Event:
    """`weight` 0: it was not counted among the kernel's records."""
    connection = record.flow.connection
    fields: list[tuple[str, FieldValue]] = [
        ("comm", "" if owner is None else owner.comm),
        ("src", connection.source),
        ("sport", connection.source_port),
        ("dst", connection.destination),
        ("dport", connection.destination_port),
    ]
    if record.kind is Kind.CONNECT_FAILED:
        fields.append(("reason", REASONS.get(record.detail, ABANDONED)))
    at = time.time() - (time.monotonic_ns() - record.monotonic_ns) / 1e9
    process = None if owner is None else owner.process
    return Event(KINDS[record.kind], int(at * 1000), process, tuple(fields), weight=weight)
