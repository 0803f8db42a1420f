"""A model's state as bytes: what it is of, its version, and its numbers."""

from __future__ import annotations

import struct

from rules.errors import StallwatchError

_HEADER = struct.Struct("<4sHI")
_MAGIC = b"SWAM"


def encode(version: int, numbers: list[float]) -> bytes:
    """A header with the version, then each number as eight bytes; NaNs keep their place."""
    header = _HEADER.pack(_MAGIC, version, len(numbers))
    return header + struct.pack(f"<{len(numbers)}d", *numbers)


def decode(version: int, state: bytes, size: int) -> list[float]:
    """The numbers of a state of this version; StallwatchError for anything else."""
    if len(state) < _HEADER.size or not state.startswith(_MAGIC):
        raise StallwatchError(
            "saved baseline: not the state of an anomaly model; it is learnt anew"
        )
    _, found, count = _HEADER.unpack_from(state)
    if found != version:
        raise StallwatchError(
            f"saved baseline: made by version {found} of the anomaly model, this is version"
            f" {version}; it is learnt anew"
        )
    if count != size or len(state) != _HEADER.size + 8 * size:
        raise StallwatchError(
            f"saved baseline: {len(state)} bytes where {_HEADER.size + 8 * size} belong; it is"
            " learnt anew"
        )
    return list(struct.unpack_from(f"<{size}d", state, _HEADER.size))
