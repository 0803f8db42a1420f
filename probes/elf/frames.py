"""Where functions and their split-off parts begin and end, from the unwind table.

Exported symbols do not name the cold part that a compiler moved elsewhere, but the unwinder must
know it: every contiguous run of code has a frame description in .eh_frame, found by the sorted
table of .eh_frame_hdr. Formats: Linux Standard Base Core, "Exception Frames"; DWARF 5, 6.4.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from probes.elf.image import Image

PCREL_SDATA4 = 0x1B
DATAREL_SDATA4 = 0x3B
UDATA4 = 0x03
HEADER_BYTES = 12
# DW_CFA_def_cfa*, which only a piece of code entered with a frame already set up starts with.
DEFINE_FRAME = frozenset({0x0C, 0x0D, 0x0E, 0x0F, 0x12, 0x13})


@dataclass(frozen=True, slots=True)
class Frame:
    """A contiguous run of code, by virtual address. `entered_midway`: its unwind rules say that
    a frame is set up already at its first instruction, so it is part of another function.
    `handlers`: exceptions may enter it at places that no jump leads to.
    """  # noqa: D205 - one sentence

    start: int
    end: int
    entered_midway: bool = False
    handlers: bool = False


class Frames:
    """The unwind table of an image; empty when there is none in the usual encoding."""

    def __init__(self, image: Image) -> None:
        self._image = image
        # (start, description) of each, ascending, relative to the header's address.
        self._base = 0
        self._table: NDArray[np.int32] = np.empty((0, 2), np.int32)
        header = image.sections.get(".eh_frame_hdr")
        if header is None or header.size < HEADER_BYTES:
            return
        raw = image.content(".eh_frame_hdr")
        if raw[:4] != bytes([1, PCREL_SDATA4, UDATA4, DATAREL_SDATA4]):
            return
        count = min(struct.unpack_from("<I", raw, 8)[0], (len(raw) - HEADER_BYTES) // 8)
        table = np.frombuffer(raw, "<i4", count=2 * count, offset=HEADER_BYTES)
        self._base, self._table = header.address, table.reshape(-1, 2)

    def at(self, address: int) -> Frame | None:
        """The run of code that holds an address."""
        relative = address - self._base
        if not -(1 << 31) <= relative < 1 << 31:
            return None
        # A number of the table's own type: for any other all of it would be converted.
        place = int(np.searchsorted(self._table[:, 0], np.int32(relative), side="right")) - 1
        if place < 0:
            return None
        start, description = (self._base + int(each) for each in self._table[place])
        frame = self._describe(start, description)
        return frame if frame and frame.start <= address < frame.end else None

    def _describe(self, start: int, description: int) -> Frame | None:
        length, to_common = struct.unpack("<II", self._image.read(description, 8))
        if not 16 <= length < 1 << 16:
            return None
        body = self._image.read(description + 8, length - 4)
        (size,) = struct.unpack_from("<I", body, 4)
        midway = handlers = False
        if self._augmented(description + 4 - to_common):
            skip, used = _uleb128(body, 8)
            rules = body[8 + used + skip :]
            midway = bool(rules) and rules[0] in DEFINE_FRAME
            handlers = skip > 0  # the pointer to its table of handlers (LSDA)
        return Frame(start, start + size, midway, handlers)

    def _augmented(self, common: int) -> bool:
        # CIE: length, id, version, then the augmentation string; "z" gives the data a length.
        return self._image.read(common + 9, 1) == b"z"


def _uleb128(data: bytes, at: int) -> tuple[int, int]:
    """(value, bytes used)."""
    value = shift = used = 0
    for byte in data[at : at + 5]:
        value |= (byte & 0x7F) << shift
        shift += 7
        used += 1
        if not byte & 0x80:
            break
    return value, used
