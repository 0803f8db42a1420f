"""The functions of a profiler plugin of NCCL, read from its file.

A plugin is a library that exports a table `ncclProfiler_vN`, N from 1: a name, then pointers to
init, startEvent, stopEvent, recordEventState and finalize (NCCL, src/include/plugin/profiler). The
pointers are filled in when the library is loaded, so that in the file they are relocations.
Kernel events came with version 3; versions 3 to 7 describe events in three layouts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from probes.elf.exits import Exits, find_exits
from probes.elf.frames import Frames
from probes.elf.symbols import SYMBOL, Symbol
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probes.elf.image import Image

# Elf64_Rela, elf(5).
RELA = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
# R_X86_64_RELATIVE, R_AARCH64_RELATIVE; R_X86_64_64 and R_AARCH64_ABS64 name a symbol instead.
RELATIVE = frozenset({8, 1027})
ABSOLUTE = frozenset({1, 257})
TABLE = re.compile(rb"\0(ncclProfiler_v(\d+))(?=\0)")
START_EVENT, STOP_EVENT = 16, 24
# The program that understands the descriptors of a version.
LAYOUTS = {
    3: "start_event_v3",
    4: "start_event_v4",
    5: "start_event_v5",
    6: "start_event_v5",
    7: "start_event_v5",
}
NEWEST = max(LAYOUTS)


@dataclass(frozen=True, slots=True)
class Hook:
    """A function of the plugin. `program` runs at its entry, `leave` at its exits ("": none)."""

    address: int
    exits: tuple[int, ...]
    program: str
    leave: str = ""


@dataclass(frozen=True, slots=True)
class Plugin:
    """What can be probed in a plugin. `reason`: why kernels cannot be seen, "" if they can."""

    versions: tuple[int, ...] = ()
    hooks: tuple[Hook, ...] = ()
    reason: str = ""
    detail: str = ""


def read_plugin(image: Image) -> Plugin | None:
    """The plugin in a file; None when it exports no table. Raises ElfError."""
    tables = dict(_tables(image))
    versions = tuple(sorted(tables))
    if not versions:
        return None
    known = [version for version in versions if version in LAYOUTS]
    if not known:
        if versions[-1] > NEWEST:
            return Plugin(
                versions,
                reason="profiler_version",
                detail=f"version {versions[-1]} of its table is not known (3 to {NEWEST} are)",
            )
        return Plugin(
            versions,
            reason="profiler_no_kernels",
            detail=f"version {versions[-1]} of its table tells nothing of kernels (3 does)",
        )
    pointers = Pointers(image)
    hooks: dict[int, Hook] = {}
    for version in known:
        start = pointers.at(tables[version] + START_EVENT)
        stop = pointers.at(tables[version] + STOP_EVENT)
        if not start or not stop:
            detail = f"where ncclProfiler_v{version} points to is not in the file"
            return Plugin(versions, reason="profiler_table", detail=detail)
        exits = _exits(image, start)
        # Two programs on one instruction would run in any order, and time nothing.
        untold = exits.reason or (start in exits.addresses and "it leaves at its first instruction")
        if untold:
            detail = f"startEvent of version {version}: {untold}"
            return Plugin(versions, reason="no_exits", detail=detail)
        hooks[start] = Hook(start, exits.addresses, LAYOUTS[version], "leave_start_event")
        hooks[stop] = Hook(stop, (), "stop_event")
    return Plugin(versions, tuple(hooks.values()))


def _tables(image: Image) -> Iterator[tuple[int, int]]:
    """(version, address) of each table that is exported."""
    section = image.sections.get(".dynsym")
    if section is None:
        return
    raw = image.content(".dynsym")
    symbols = np.frombuffer(raw, SYMBOL, count=len(raw) // SYMBOL.itemsize)
    for found in TABLE.finditer(image.content(section.link)):
        rows = symbols[(symbols["name"] == found.start(1)) & (symbols["section"] != 0)]
        for row in rows:
            yield int(found[2]), int(row["value"])


class Pointers:
    """What the pointers in a file will hold once it is loaded, less its base address."""

    def __init__(self, image: Image) -> None:
        self._image = image
        raw = image.content(".rela.dyn")
        self._relocations = np.frombuffer(raw, RELA, count=len(raw) // RELA.itemsize)
        symbols = image.content(".dynsym")
        self._symbols = np.frombuffer(symbols, SYMBOL, count=len(symbols) // SYMBOL.itemsize)

    def at(self, address: int) -> int:
        """The pointer at a virtual address; 0 when the file does not tell. Raises ElfError."""
        for row in self._relocations[self._relocations["offset"] == address]:
            kind, symbol = int(row["info"]) & 0xFFFFFFFF, int(row["info"]) >> 32
            if kind in RELATIVE:
                return int(row["addend"])
            if kind in ABSOLUTE and symbol < len(self._symbols):
                return int(self._symbols[symbol]["value"]) + int(row["addend"])
        # Packed relative relocations (.relr.dyn) leave the addend where the pointer will be.
        if ".relr.dyn" in self._image.sections:
            return int.from_bytes(self._image.read(address, 8), "little")
        return 0


def _exits(image: Image, address: int) -> Exits:
    """The exits of a function that may have no symbol: the unwind table tells its size."""
    frame = Frames(image).at(address)
    if frame is None or frame.start != address:
        return Exits(reason="no unwind table tells where it ends")
    name = f"{address:#x}"
    return find_exits(image, Symbol(address, frame.end - frame.start, name, name))
