"""The identity of a label set on the wire: Alertmanager's fingerprint.

Source: `LabelSet.Fingerprint` of prometheus/common, model/labelset.go: FNV-1a, 64 bits, over the
labels sorted by name, each name and each value followed by a 0xff byte.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from engine.labels import Labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FNV_OFFSET = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3
# An alert's is asked for by each stage, and its bytes are hashed one by one.
REMEMBERED = 8192
UINT64 = 0xFFFFFFFFFFFFFFFF


def fingerprint(labels: Labels | Mapping[str, str]) -> str:
    """Sixteen hexadecimal digits, equal to Alertmanager's for the same labels."""
    return _of_labels(labels) if isinstance(labels, Labels) else _hashed(labels.items())


@lru_cache(REMEMBERED)
def _of_labels(labels: Labels) -> str:
    return _hashed(labels.pairs)


def _hashed(pairs: Iterable[tuple[str, str]]) -> str:
    data = b"".join(
        part.encode("utf-8", "surrogateescape") + b"\xff" for pair in sorted(pairs) for part in pair
    )
    value = FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * FNV_PRIME) & UINT64
    return f"{value:016x}"
