"""One symbol table of an ELF file: names, kinds, addresses; quick with 100,000 symbols and more."""

from __future__ import annotations

import fnmatch
import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from probes.elf.symbols import (
    MAX_NAME_BYTES,
    STT_FUNC,
    STT_GNU_IFUNC,
    SYMBOL,
    Symbol,
    demangle,
)
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probes.elf.image import Image

Kind: TypeAlias = Literal["function", "ifunc", "data", "imported"]
STT_NOTYPE, STT_OBJECT = 0, 1


@dataclass(frozen=True, slots=True)
class Match:
    """A symbol that a pattern means.

    `kind`: function; ifunc, whose address is the resolver's and is called once; data; imported,
    which is defined in another file.
    """

    symbol: Symbol
    kind: Kind
    table: str


class SymbolTable:
    """The symbols of a section that are functions, data or imports. Raises ElfError.

    A row is a place in the table; names are bytes, as the file has them.
    """

    def __init__(self, image: Image, section: str) -> None:
        found = image.sections.get(section)
        raw = image.content(section)
        symbols = np.frombuffer(raw, SYMBOL, count=len(raw) // SYMBOL.itemsize)
        kinds = symbols["info"] & 0xF
        kept = np.isin(kinds, (STT_OBJECT, STT_FUNC, STT_GNU_IFUNC))
        kept |= (kinds == STT_NOTYPE) & (symbols["section"] == 0)
        symbols = symbols[kept & (symbols["name"] != 0)]
        self.section = section
        # By name, so that those with a name's offset are found by bisection.
        self._symbols = symbols[np.argsort(symbols["name"], kind="stable")]
        self._starts: list[int] = self._symbols["name"].tolist()
        self._strings = image.content(found.link) if found else b""
        self._lower = b""

    def __len__(self) -> int:
        return len(self._symbols)

    @property
    def functions(self) -> int:
        """How many symbols are functions that the file defines, names of one address apart."""
        kinds = self._symbols["info"] & 0xF
        return int(np.count_nonzero((self._symbols["section"] != 0) & (kinds == STT_FUNC)))

    def name(self, row: int) -> bytes:
        """The ELF name of a row, with its version if it has one; cut off at MAX_NAME_BYTES."""
        start = self._starts[row]
        end = self._strings.find(b"\0", start, start + MAX_NAME_BYTES)
        return self._strings[start : end if end >= 0 else start + MAX_NAME_BYTES]

    def exact(self, name: str) -> Iterator[Match]:
        """The symbols of this name, whatever their version."""
        # A linker may make one name the tail of another's string: every occurrence counts.
        for end in (b"\0", b"@"):
            for at in self._occurrences(name.encode("utf-8", "surrogateescape") + end):
                for row in self._rows(at, at):
                    yield self.at(row)

    def rows_that_fit(self, pattern: str) -> list[int]:
        """Rows whose ELF name fits a glob."""
        shape = re.compile(fnmatch.translate(pattern).encode("utf-8", "surrogateescape"))
        literals = [part for part in re.split(r"\[[^\]]*\]?|[*?]", pattern) if part]
        return [row for row in self.rows_with(literals) if shape.match(self.name(row))]

    def rows_with(self, parts: list[str]) -> list[int]:
        """Rows whose ELF name has every one of these texts in it."""
        needles = sorted((p.encode("utf-8", "surrogateescape") for p in parts), key=len)
        if not needles:
            return list(range(len(self)))
        rows: dict[int, None] = {}
        for start, last in self._spelled(needles[-1], self._strings):
            rows.update(dict.fromkeys(self._rows(start, last)))
        others = needles[:-1]
        return [row for row in rows if all(part in self.name(row) for part in others)]

    def count_near(self, part: str) -> int:
        """How often a text occurs in the names, in small or capital letters."""
        return self._lowered().count(part.encode())

    def rows_near(self, part: str) -> set[int]:
        """Rows with a text in their name, given in small letters, found in capital ones too."""
        rows: set[int] = set()
        for start, last in self._spelled(part.encode(), self._lowered()):
            rows.update(self._rows(start, last))
        return rows

    def _lowered(self) -> bytes:
        self._lower = self._lower or self._strings.lower()
        return self._lower

    def at(self, row: int, *, demangled: bool = True) -> Match:
        """The symbol of a row; not demangled, it has its ELF name twice."""
        symbol = self._symbols[row]
        kind = _kind(int(symbol["info"]) & 0xF, int(symbol["section"]))
        name = self.name(row).decode("utf-8", "replace").partition("@")[0]
        place = int(symbol["value"]), int(symbol["size"])
        shown = demangle(name) if demangled else name
        return Match(Symbol(*place, name, shown), kind, self.section)

    def _rows(self, first: int, last: int) -> range:
        """Rows whose name starts at an offset from `first` to `last`."""
        # Not numpy's: it would turn the whole array into the number's type, each time.
        return range(bisect_left(self._starts, first), bisect_right(self._starts, last))

    def _occurrences(self, needle: bytes) -> Iterator[int]:
        at = self._strings.find(needle)
        while at >= 0:
            yield at
            at = self._strings.find(needle, at + 1)

    def _spelled(self, needle: bytes, strings: bytes) -> Iterator[tuple[int, int]]:
        """(start, place of the last occurrence) of each string with a text in it."""
        at = strings.find(needle)
        while at >= 0:
            end = strings.find(b"\0", at)
            end = len(strings) if end < 0 else end
            start = strings.rfind(b"\0", 0, at) + 1
            if end - start <= MAX_NAME_BYTES:
                yield start, strings.rfind(needle, at, end)
            at = strings.find(needle, max(end, at + 1))


def _kind(kind: int, section: int) -> Kind:
    if section == 0:
        return "imported"
    if kind == STT_OBJECT:
        return "data"
    return "ifunc" if kind == STT_GNU_IFUNC else "function"
