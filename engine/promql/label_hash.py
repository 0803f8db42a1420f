"""The hash of a label set as Prometheus computes it, by which limit_ratio picks series.

Prometheus keeps a label set as one string of sized names and values and hashes that with XXH64
(model/labels/labels_stringlabels.go). Source of the hash: the xxHash specification, section XXH64.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from engine.labels import Labels

_MASK: Final = 2**64 - 1
_PRIME_1: Final = 0x9E3779B185EBCA87
_PRIME_2: Final = 0xC2B2AE3D27D4EB4F
_PRIME_3: Final = 0x165667B19E3779F9
_PRIME_4: Final = 0x85EBCA77C2B2AE63
_PRIME_5: Final = 0x27D4EB2F165667C5


@lru_cache(maxsize=65_536)
def label_hash(labels: Labels) -> int:
    """The 64-bit hash of a label set."""
    return xxh64(b"".join(_sized(text) for pair in labels.pairs for text in pair))


def _sized(text: str) -> bytes:
    """Size and bytes: one byte below 255, else 255 and three bytes, the lowest first."""
    data = text.encode("utf-8", "surrogateescape")
    size = bytes([len(data)]) if len(data) < 255 else b"\xff" + len(data).to_bytes(3, "little")
    return size + data


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _round(state: int, lane: int) -> int:
    return _rotated((state + lane * _PRIME_2) & _MASK, 31) * _PRIME_1 & _MASK


def xxh64(data: bytes) -> int:
    """XXH64 with seed 0."""
    size = len(data)
    at = 0
    if size >= 32:
        states = [_PRIME_1 + _PRIME_2 & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK]
        while at + 32 <= size:
            lanes = struct.unpack_from("<4Q", data, at)
            states = [_round(state, lane) for state, lane in zip(states, lanes, strict=True)]
            at += 32
        turns = zip(states, (1, 7, 12, 18), strict=True)
        found = sum(_rotated(state, bits) for state, bits in turns) & _MASK
        for state in states:
            found = ((found ^ _round(0, state)) * _PRIME_1 + _PRIME_4) & _MASK
    else:
        found = _PRIME_5
    found = (found + size) & _MASK
    while at + 8 <= size:
        (lane,) = struct.unpack_from("<Q", data, at)
        found = (_rotated(found ^ _round(0, lane), 27) * _PRIME_1 + _PRIME_4) & _MASK
        at += 8
    if at + 4 <= size:
        (half,) = struct.unpack_from("<I", data, at)
        found = (_rotated(found ^ (half * _PRIME_1 & _MASK), 23) * _PRIME_2 + _PRIME_3) & _MASK
        at += 4
    for byte in data[at:]:
        found = _rotated(found ^ (byte * _PRIME_5 & _MASK), 11) * _PRIME_1 & _MASK
    found = (found ^ (found >> 33)) * _PRIME_2 & _MASK
    found = (found ^ (found >> 29)) * _PRIME_3 & _MASK
    return found ^ (found >> 32)
