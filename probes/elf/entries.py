"""Whether an instruction begins where a symbol says that a function does.

A symbol is only a number in a file. A breakpoint inside an instruction changes what it does, and
one in constants changes what the program reads, without any error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probes.elf.exits import MAX_FUNCTION_BYTES
from probes.elf.frames import Frames
from probes.elf.image import NotCodeError
from probes.elf.jumps import UndecodableError, decode
from probes.elf.symbols import STT_FUNC, SYMBOL, TABLES

if TYPE_CHECKING:
    from probes.elf.image import Image


def entry_offset(image: Image, address: int) -> int:
    """Where in the file a function's first instruction lies.

    An address within another function, as the unwind table or the symbols know it, must be one at
    which an instruction of that function begins. Raises NotCodeError, ElfError.
    """
    offset = image.code_offset(address)
    frame = Frames(image).at(address)
    begin = frame.start if frame is not None else _function_around(image, address)
    if begin != address and not _begins(image, begin, address):
        raise NotCodeError(f"{image.path}: address {address:#x} lies inside an instruction")
    return offset


def _function_around(image: Image, address: int) -> int:
    """The beginning of the nearest function that holds an address; else the address itself."""
    best = -1
    for table in TABLES:
        raw = image.content(table)
        symbols = np.frombuffer(raw, SYMBOL, count=len(raw) // SYMBOL.itemsize)
        symbols = symbols[(symbols["info"] & 0xF == STT_FUNC) & (symbols["section"] != 0)]
        before = symbols["value"] < address
        starts = symbols["value"][before & (address - symbols["value"] < symbols["size"])]
        best = max(best, int(starts.max(initial=0)) if len(starts) else -1)
    return best if best >= 0 else address


def _begins(image: Image, begin: int, address: int) -> bool:
    """Whether the instructions from `begin` on end where the address begins another."""
    if address - begin > MAX_FUNCTION_BYTES:
        return False
    try:
        list(decode(image.machine, image.read(begin, address - begin), begin))
    except UndecodableError:
        return False
    return True
