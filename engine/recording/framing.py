"""Frames of an append-only file: length, CRC-32, payload. A torn tail ends the scan, no more.

The magic line `SWJ1`, then frames of `<II` (payload length, CRC-32 of the payload) and the payload.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import TYPE_CHECKING

from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAGIC = b"SWJ1\n"
_HEAD = struct.Struct("<II")
# A length above this is a torn or overwritten head, never a flush.
MAX_PAYLOAD = 1 << 30


@dataclass(frozen=True, slots=True)
class Scan:
    """The whole frames of a file; `good_bytes` is where they end, `torn_bytes` what follows."""

    payloads: Sequence[bytes]
    good_bytes: int
    torn_bytes: int


def frame(payload: bytes) -> bytes:
    """A payload with its head."""
    return _HEAD.pack(len(payload), zlib.crc32(payload)) + payload


def scan(content: bytes) -> Scan:
    """Read frames up to the first that is incomplete or fails its checksum."""
    if not content.startswith(MAGIC):
        return Scan((), 0, len(content))
    payloads = []
    at = len(MAGIC)
    while at + _HEAD.size <= len(content):
        length, checksum = _HEAD.unpack_from(content, at)
        end = at + _HEAD.size + length
        if length > MAX_PAYLOAD or end > len(content):
            break
        payload = content[at + _HEAD.size : end]
        if zlib.crc32(payload) != checksum:
            break
        payloads.append(payload)
        at = end
    return Scan(payloads, at, len(content) - at)


def write_all(descriptor: int, content: bytes) -> None:
    """os.write until everything is written."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def put_file(path: Path, content: bytes) -> None:
    """Put a file in its place, whole or not at all; `sync_folder` follows. Raises OSError."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sync_folder(path: str) -> None:
    """Make a rename or a new file in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
