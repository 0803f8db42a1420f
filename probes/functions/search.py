"""Looks for symbols by a part of their name, and for the nearest ones when there is none."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections import Counter
from typing import TYPE_CHECKING

from probes.elf.exits import find_exits
from probes.elf.symbols import demangle
from probes.functions.matching import (
    MAX_DEMANGLED,
    TABLES,
    is_glob,
    spelled_words,
    without_parameters,
)
from probes.functions.table import Match, SymbolTable
from rules.slotted import dataclass

if TYPE_CHECKING:
    from probes.elf.image import Image

SUGGESTIONS = 5
# Candidates whose distance is worked out; those that share most trigrams come first.
CANDIDATES = 200
# A trigram in more strings than this tells little and takes long.
MAX_OCCURRENCES = 20_000


@dataclass(frozen=True, slots=True)
class Facts:
    """What can be probed in a file at all. `note`: what cannot, "" when nothing is missing."""

    exported: int
    internal: int
    stripped: bool
    static: bool

    @property
    def note(self) -> str:
        """One sentence about what is hidden."""
        if self.static and self.stripped:
            return "statically linked and stripped: no function in it has a name"
        if self.static:
            return "statically linked: what it calls of other libraries is inside it, or inlined"
        if self.stripped:
            return "stripped: only exported functions have names"
        return ""


@dataclass(frozen=True, slots=True)
class Row:
    """A symbol that was found. `offset`: bytes into the file, where a probe goes.

    `exits`: how many exit instructions it has; 0: they cannot be found, and `untold` says why.
    `aliases`: other names of its address.
    """

    name: str
    demangled: str
    kind: str
    table: str
    offset: int
    size: int
    exits: int
    untold: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """`total` symbols, at least if not `complete`, of which `rows` are shown, or `suggestions`."""

    total: int
    rows: tuple[Row, ...]
    suggestions: tuple[str, ...] = ()
    complete: bool = True


def facts_of(image: Image) -> Facts:
    """Count what a file offers. Raises ElfError."""
    tables = {name: SymbolTable(image, name) for name in TABLES if name in image.sections}
    exported = tables[".dynsym"].functions if ".dynsym" in tables else 0
    internal = tables[".symtab"].functions if ".symtab" in tables else 0
    static = ".dynamic" not in image.sections or ".dynsym" not in image.sections
    return Facts(exported, internal, ".symtab" not in tables, static)


def search(image: Image, pattern: str, limit: int = 50) -> Found:
    """Symbols that a pattern means: a part of the name, or a glob over all of it.

    Mangled and demangled names alike. Raises ElfError.
    """
    tables = [SymbolTable(image, name) for name in TABLES if name in image.sections]
    by_address: dict[tuple[int, str], list[Match]] = {}
    complete = True
    for table in tables:
        matches, all_of_them = _matches(table, pattern)
        complete &= all_of_them
        for each in matches:
            if not each.symbol.cold:
                imported = each.symbol.name if each.kind == "imported" else ""
                by_address.setdefault((each.symbol.address, imported), []).append(each)
    groups = sorted(by_address.values(), key=lambda group: _rank(group[0], pattern))
    rows = tuple(_row(image, group) for group in groups[:limit])
    suggestions = () if groups else suggest(tables, pattern)
    return Found(len(groups), rows, suggestions, complete)


def suggest(tables: list[SymbolTable], pattern: str) -> tuple[str, ...]:
    """Names that are near a pattern, the nearest first: demangled ones without parameters."""
    word = max(re.findall(r"\w+", pattern) or [""], key=len).lower()
    grams = {word[place : place + 3] for place in range(len(word) - 2)}
    scored: Counter[tuple[SymbolTable, int]] = Counter()
    for table in tables:
        for gram in grams:
            if table.count_near(gram) <= MAX_OCCURRENCES:
                scored.update((table, row) for row in table.rows_near(gram))
    names: dict[str, float] = {}
    matcher = difflib.SequenceMatcher(b=pattern.lower())
    for (table, row), _ in scored.most_common(CANDIDATES):
        each = table.at(row)
        if each.kind == "function" and not each.symbol.cold:
            name = without_parameters(each.symbol.demangled)
            matcher.set_seq1(name.lower() if "::" in pattern else name.lower().rpartition("::")[2])
            names[name] = matcher.ratio()
    best = sorted(names, key=lambda name: (-names[name], len(name), name))
    return tuple(best[:SUGGESTIONS])


def _matches(table: SymbolTable, pattern: str) -> tuple[list[Match], bool]:
    """Matches, not demangled where it is not needed, and whether these are all."""
    rows = dict.fromkeys(table.rows_that_fit(pattern if is_glob(pattern) else f"*{pattern}*"))
    found = [table.at(row, demangled=False) for row in rows]
    if is_glob(pattern) or not re.fullmatch(r"\w*", pattern):
        shape = re.compile(fnmatch.translate(pattern)) if is_glob(pattern) else None
        others = [row for row in table.rows_with(spelled_words(pattern)) if row not in rows]
        others.sort(key=lambda row: len(table.name(row)))
        for row in others[:MAX_DEMANGLED]:
            each = table.at(row)
            name = each.symbol.demangled
            if shape.match(without_parameters(name)) if shape else pattern in name:
                found.append(each)
        return found, len(others) <= MAX_DEMANGLED
    return found, True


def _rank(found: Match, pattern: str) -> tuple[bool, bool, int, str]:
    name = found.symbol.name
    return (found.kind != "function", pattern != name, len(name), name)


def _row(image: Image, group: list[Match]) -> Row:
    first = min(group, key=lambda each: (each.table != ".dynsym", len(each.symbol.name)))
    symbol, exits, untold, offset = first.symbol, 0, "", 0
    if first.kind != "imported":
        offset = image.file_offset(symbol.address) if first.kind == "function" else 0
    if first.kind == "function":
        told = find_exits(image, symbol)
        exits, untold = len(told.addresses), told.reason
    others = sorted({each.symbol.name for each in group} - {symbol.name})
    return Row(
        symbol.name,
        demangle(symbol.name),
        first.kind,
        first.table,
        offset,
        symbol.size,
        exits,
        untold,
        tuple(others),
    )
