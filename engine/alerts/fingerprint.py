"""The identity of a label set on the wire: Alertmanager's fingerprint.

Source: `LabelSet.Fingerprint` of prometheus/common, model/labelset.go: FNV-1a, 64 bits, over the
labels sorted by name, each name and each value followed by a 0xff byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.labels import Labels

FNV_OFFSET = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3
UINT64 = 0xFFFFFFFFFFFFFFFF


def fingerprint(labels: Labels | Mapping[str, str]) -> str:
    """Sixteen hexadecimal digits, equal to Alertmanager's for the same labels."""
    pairs = labels.items() if hasattr(labels, "items") else labels
    data = b"".join(
        part.encode("utf-8", "surrogateescape") + b"\xff" for pair in sorted(pairs) for part in pair
    )
    value = FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * FNV_PRIME) & UINT64
    return f"{value:016x}"
