"""Marks the steps of a training loop for stallwatch. Copy this file beside the job.

    import stallwatch_step

    for batch in batches:
        train(batch)
        stallwatch_step.mark()

Needs nothing but Python 3.8 on Linux (x86-64 or arm64). A library with one empty function is
written into memory and loaded; stallwatch puts a breakpoint on it. Without stallwatch a call costs
a fraction of a microsecond, with it about one. Where the library cannot be loaded `mark` does
nothing, and `available` is False.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import tempfile

NAME = b"stallwatch_step"
FILE = "libstallwatch_step"
# (e_machine, code): nothing, then return. The breakpoint on a `nop` is emulated, not stepped.
CODE = {
    "x86_64": (62, b"\x90\xc3"),
    "aarch64": (183, b"\x1f\x20\x03\xd5\xc0\x03\x5f\xd6"),
}
# The largest page of either; a segment's place in the file and in memory agree modulo this.
PAGE = 0x10000


def image(machine: str) -> bytes:
    """The library's bytes, an ELF file (elf(5)). KeyError for a machine that has no code above."""
    number, code = CODE[machine]
    strings = b"\0" + NAME + b"\0"
    names = b"\0.text\0.dynsym\0.dynstr\0.hash\0.dynamic\0.shstrtab\0"
    headers = 64 + 4 * 56
    text = headers
    symbols = text + 16
    string_place = symbols + 2 * 24
    hashes = _up(string_place + len(strings))
    dynamic = _up(hashes + 5 * 4)
    name_place = dynamic + 6 * 16
    sections = _up(name_place + len(names))
    body = bytearray(sections)

    def put(place: int, content: bytes) -> None:
        body[place : place + len(content)] = content

    def segment(kind: int, flags: int, place: int, address: int, size: int, align: int) -> bytes:
        return struct.pack("<IIQQQQQQ", kind, flags, place, address, address, size, size, align)

    def section(
        name: bytes, kind: int, flags: int, address: int, place: int, size: int,
        link: int = 0, info: int = 0, entry: int = 0,
    ) -> bytes:  # fmt: skip
        return struct.pack(
            "<IIQQQQIIQQ", names.index(b"\0" + name + b"\0") + 1 if name else 0, kind, flags,
            address, place, size, link, info, 8, entry,
        )  # fmt: skip

    put(0, b"\x7fELF\2\1\1" + bytes(9))
    put(16, struct.pack("<HHIQQQIHHHHHH", 3, number, 1, 0, 64, sections, 0, 64, 56, 4, 64, 7, 6))
    # The dynamic section is written to by older loaders; the stack need not be executable.
    put(64, segment(1, 5, 0, 0, dynamic, PAGE))
    put(120, segment(1, 6, dynamic, PAGE + dynamic, 6 * 16, PAGE))
    put(176, segment(2, 6, dynamic, PAGE + dynamic, 6 * 16, 8))
    put(232, segment(0x6474E551, 6, 0, 0, 0, 16))
    put(text, code)
    put(symbols + 24, struct.pack("<IBBHQQ", 1, 0x12, 0, 1, text, len(code)))
    put(string_place, strings)
    put(hashes, struct.pack("<5I", 1, 2, 1, 0, 0))
    tags = ((4, hashes), (5, string_place), (6, symbols), (10, len(strings)), (11, 24), (0, 0))
    put(dynamic, b"".join(struct.pack("<QQ", *tag) for tag in tags))
    put(name_place, names)
    table = (
        section(b"", 0, 0, 0, 0, 0)
        + section(b".text", 1, 6, text, text, len(code))
        + section(b".dynsym", 11, 2, symbols, symbols, 48, 3, 1, 24)
        + section(b".dynstr", 3, 2, string_place, string_place, len(strings))
        + section(b".hash", 5, 2, hashes, hashes, 20, 2, 0, 4)
        + section(b".dynamic", 6, 3, PAGE + dynamic, dynamic, 96, 3, 0, 16)
        + section(b".shstrtab", 3, 0, 0, name_place, len(names))
    )
    return bytes(body) + table


def _up(place: int) -> int:
    return (place + 7) // 8 * 8


def _from_memory(content: bytes) -> ctypes.CDLL:
    # A name with a folder, since the library is known by the last part of its path.
    memory = os.memfd_create(f"stallwatch/{FILE}.so")
    try:
        os.write(memory, content)
        return ctypes.PyDLL(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)


def _from_file(content: bytes) -> ctypes.CDLL:
    with tempfile.NamedTemporaryFile(prefix=FILE, suffix=".so") as file:
        file.write(content)
        file.flush()
        return ctypes.PyDLL(file.name)


def _load() -> ctypes.CDLL | None:
    for way in (_from_memory, _from_file):
        try:
            return way(image(platform.machine()))
        except (OSError, KeyError, AttributeError):  # noqa: PERF203
            continue  # memory or folder not executable, another machine
    return None


_library = _load()
available = _library is not None


def mark() -> None:
    """A step ends here."""
    if _library is not None:
        _library.stallwatch_step()
