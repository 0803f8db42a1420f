"""Which functions of a file a pattern means.

A pattern is an exact ELF name (`cudaMemcpy`), a glob over ELF names (`ncclAll*`), or, with `::`, a
demangled name without its parameters, or a glob over those (`c10d::Reducer::*`). A name without
`::` that no symbol has is tried as a demangled one too (`step` for `_Z4stepi`).
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from probes.elf.symbols import STT_FUNC, STT_GNU_IFUNC, SYMBOL, Symbol, demangle, find_functions
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probes.elf.image import Image

Kind: TypeAlias = Literal["function", "ifunc", "data", "imported"]
STT_NOTYPE, STT_OBJECT = 0, 1
TABLES = (".dynsym", ".symtab")
_GLOB = frozenset("*?[")
_PARAMETERS = re.compile(r"\(.*", re.DOTALL)


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
    """One symbol table of a file: names, kinds, addresses. Raises ElfError."""

    def __init__(self, image: Image, section: str) -> None:
        found = image.sections.get(section)
        raw = image.content(section)
        self.section = section
        self._symbols = np.frombuffer(raw, SYMBOL, count=len(raw) // SYMBOL.itemsize)
        self._strings = image.content(found.link) if found else b""
        self._names = self._symbols["name"]

    def __len__(self) -> int:
        return len(self._symbols)

    def exact(self, name: str) -> Iterator[Match]:
        """The symbols of this name, whatever their version."""
        # A linker may make one name the tail of another's string: every occurrence counts.
        for end in (b"\0", b"@"):
            needle = name.encode() + end
            at = self._strings.find(needle)
            while at >= 0:
                yield from self._at(np.flatnonzero(self._names == at))
                at = self._strings.find(needle, at + 1)

    def glob(self, pattern: str) -> Iterator[Match]:
        """The symbols whose ELF name fits a glob."""
        text = fnmatch.translate(pattern).replace("\\Z", "").replace("\\z", "")
        shape = re.compile(text.replace(".*", "[^\0]*").encode() + rb"\0")
        fits = [shape.match(self._strings, start) is not None for start in self._names.tolist()]
        yield from self._at(np.flatnonzero(fits))

    def with_words(self, words: list[str]) -> Iterator[Match]:
        """The symbols whose ELF name has every one of these identifiers in it."""
        needles = [word.encode() for word in words]
        for row, start in enumerate(self._names.tolist()):
            text = self._strings[start : self._strings.find(b"\0", start)]
            if text and all(needle in text for needle in needles):
                yield from self._at(np.array([row]))

    def _at(self, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Iterator[Match]:
        for row in rows.tolist():
            symbol = self._symbols[row]
            kind = _kind(int(symbol["info"]) & 0xF, int(symbol["section"]))
            if kind is not None:
                start = int(symbol["name"])
                text = self._strings[start : self._strings.find(b"\0", start)]
                name = text.decode("utf-8", "replace").partition("@")[0]
                place = int(symbol["value"]), int(symbol["size"])
                yield Match(Symbol(*place, name, demangle(name)), kind, self.section)


def _kind(kind: int, section: int) -> Kind | None:
    if kind not in {STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_GNU_IFUNC}:
        return None
    if section == 0:
        return "imported"
    if kind == STT_OBJECT:
        return "data"
    if kind == STT_GNU_IFUNC:
        return "ifunc"
    return "function" if kind == STT_FUNC else None


def match(image: Image, pattern: str) -> tuple[Match, ...]:
    """Everything that a pattern means, functions first, each address once.

    Parts that the compiler split off (`.cold`) are left out. The exported symbols are asked before
    .symtab. Raises ElfError.
    """
    others: tuple[Match, ...] = ()
    for section in TABLES:
        table = SymbolTable(image, section)
        found = _once(each for each in _search(image, table, pattern) if not each.symbol.cold)
        if any(each.kind == "function" for each in found):
            return found
        others = others or found
    return others


def _once(matches: Iterator[Match]) -> tuple[Match, ...]:
    ordered = sorted(matches, key=lambda each: (each.kind != "function", each.symbol))
    first: dict[tuple[int, str], Match] = {}
    for each in ordered:
        first.setdefault((each.symbol.address, each.symbol.name * (each.kind == "imported")), each)
    return tuple(first.values())


def _search(image: Image, table: SymbolTable, pattern: str) -> Iterator[Match]:
    globbed = not _GLOB.isdisjoint(pattern)
    if "::" in pattern:
        if globbed:
            yield from _demangled(table, pattern)
        else:
            yield from _named(image, table, pattern)
    elif globbed:
        yield from table.glob(pattern)
    else:
        exact = tuple(table.exact(pattern))
        yield from exact or _named(image, table, pattern)


def _named(image: Image, table: SymbolTable, name: str) -> Iterator[Match]:
    for symbol in find_functions(image, name, (table.section,)):
        yield Match(symbol, "function", table.section)


def _demangled(table: SymbolTable, pattern: str) -> Iterator[Match]:
    words = re.findall(r"\w+", re.sub(r"\[[^\]]*\]?|\w*[*?]\w*", " ", pattern))
    shape = re.compile(fnmatch.translate(pattern))
    for each in table.with_words(words):
        if shape.match(_PARAMETERS.sub("", each.symbol.demangled)):
            yield each
