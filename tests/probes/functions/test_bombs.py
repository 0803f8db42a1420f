"""Files made to exhaust whoever reads them."""

from __future__ import annotations

import struct
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from probes.elf.image import Image
from probes.elf.symbols import MAX_NAME_BYTES, find_functions
from probes.functions.matching import VaguePatternError, match

if TYPE_CHECKING:
    from pathlib import Path

LABELS = b"\0.shstrtab\0.dynsym\0.dynstr\0"
TABLES_AT, TEXT_AT = 4096, 8192


def header(name: int, kind: int, offset: int, size: int, link: int = 0) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, link, 0, 1, 0)


def write(path: Path, headers: list[bytes], text: bytes) -> str:
    """An ELF file of x86-64 with these sections, whose bytes lie at TEXT_AT or behind."""
    ident = b"\x7fELF\x02\x01\x01"
    facts = (3, 62, 1, 0, 64, TABLES_AT, 0, 64, 56, 1, 64, len(headers), 1)
    first = struct.pack("<16sHHIQQQIHHHHHH", ident, *facts)
    first += struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 4096, 4096, 4096)
    table = b"".join(headers)
    at = TEXT_AT - TABLES_AT
    path.write_bytes(first.ljust(TABLES_AT, b"\0") + table.ljust(at, b"\0") + text)
    return str(path)


def symbols(path: Path, count: int, name: bytes) -> str:
    """`count` functions that all have one name; it may be endless."""
    strings = b"\0" + name
    table = struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 64, 8) * count
    places = [TEXT_AT, TEXT_AT + len(LABELS), TEXT_AT + len(LABELS) + len(strings)]
    headers = [
        header(0, 0, 0, 0),
        header(1, 3, places[0], len(LABELS)),
        header(11, 11, places[2], len(table), 3),
        header(19, 3, places[1], len(strings)),
    ]
    return write(path, headers, LABELS + strings + table)


def test_a_name_that_all_sections_share_and_that_never_ends_takes_no_memory(
    tmp_path: Path,
) -> None:
    size = 1 << 20
    count = 5000
    at = TABLES_AT + 64 * count
    headers = [header(i, 1, at, size) for i in range(count)]
    path = write(tmp_path / "sections.so", headers, b"a" * size)
    tracemalloc.start()
    try:
        Image(path).close()
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("pattern", ["aaaa", "aa::aa", "b*", "*aaaa*"])
def test_a_name_that_never_ends_is_no_function(tmp_path: Path, pattern: str) -> None:
    path = symbols(tmp_path / "endless.so", 4000, b"a" * (8 * MAX_NAME_BYTES))
    with Image(path) as image:
        assert match(image, pattern) == ()
        assert find_functions(image, "aaaa") == ()


def test_a_glob_that_means_more_symbols_than_anybody_probes_is_vague(tmp_path: Path) -> None:
    path = symbols(tmp_path / "many.so", 6000, b"f\0")
    with Image(path) as image, pytest.raises(VaguePatternError, match="6000 symbols"):
        match(image, "f*")
