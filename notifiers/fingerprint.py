"""Alertmanager's fingerprint of a label set, and the id that a notification keeps for life."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.labels import Labels

# FNV-1a, 64 bits; 0xff after each name and value (prometheus/common, model/signature.go).
_OFFSET = 14695981039346656037
_PRIME = 1099511628211
_MASK = (1 << 64) - 1


def fingerprint(labels: Labels) -> str:
    """16 hex digits, equal to Alertmanager's for the same labels."""
    total = _OFFSET
    for pair in labels:
        for text in pair:
            for byte in (*text.encode(), 0xFF):
                total = ((total ^ byte) * _PRIME) & _MASK
    return f"{total:016x}"


def message_id(alert: str, fired_at_ms: int, status: str, integration: str) -> str:
    """32 hex digits: the same transition for the same integration always has the same id.

    `alert` is its fingerprint. A receiver that sees an id twice has been sent a repeat.
    """
    text = "\0".join((alert, str(fired_at_ms), status, integration))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
