"""Where functions of files lie in a process."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from probes.libraries.maps import PROC, FileKey, read_maps

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# Start, end, file offset, device and inode of what is executed (proc(5)).
_LINE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) \S\Sx\S ([0-9a-f]+) (\S+) (\d+) ", re.MULTILINE)


class Span(NamedTuple):
    """A function in a file: `offset` and `size` in bytes."""

    key: FileKey
    offset: int
    size: int


class Region(NamedTuple):
    """The same in a process: a virtual address."""

    start: int
    size: int


def regions(pid: int, spans: Iterable[Span], proc: Path = PROC) -> list[Region]:
    """Where the process maps them; none when it is gone or may not be read."""
    return regions_in(maps_of(pid, proc), spans)


def maps_of(pid: int, proc: Path = PROC) -> bytes:
    """What a process maps; nothing when it is gone or may not be read."""
    try:
        return read_maps(pid, proc)
    except OSError:
        return b""


def regions_in(text: bytes, spans: Iterable[Span]) -> list[Region]:
    """Where the spans lie in a process of these maps."""
    wanted: dict[FileKey, list[Span]] = {}
    for span in spans:
        wanted.setdefault(span.key, []).append(span)
    found: list[Region] = []
    for first, last, offset, device, inode in _LINE.findall(text):
        start, begin = int(first, 16), int(offset, 16)
        end = begin + int(last, 16) - start
        found += [
            Region(start + span.offset - begin, span.size)
            for span in wanted.get(FileKey(device.decode(), int(inode)), ())
            if begin <= span.offset < end
        ]
    return found
