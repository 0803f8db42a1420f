"""Which functions of a file a pattern means.

A pattern is an exact ELF name (`cudaMemcpy`), a glob over ELF names (`ncclAll*`), or, with `::`, a
demangled name without its parameters, or a glob over those (`c10d::Reducer::*`). A name without
`::` that no symbol has is tried as a demangled one too (`step` for `_Z4stepi`).
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING

from probes.elf.symbols import find_functions
from probes.functions.table import Match, SymbolTable
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from probes.elf.image import Image

TABLES = (".dynsym", ".symtab")
# Names that are demangled for one pattern: at 10 µs, and a hundred times that for some.
MAX_DEMANGLED = 5_000
_GLOB = frozenset("*?[")
# Spelled out in no mangled name: `St` stands for std, `aS` for operator=, `PKc` for const char *.
# fmt: off
_CODED = frozenset(
    {"std", "operator", "const", "volatile", "unsigned", "signed", "char", "short", "int", "long",
     "float", "double", "bool", "void", "string", "basic_string", "allocator", "char_traits",
     "basic_ostream", "basic_istream", "basic_iostream", "anonymous", "namespace", "true", "false"}
)
# fmt: on


def is_glob(pattern: str) -> bool:
    """Whether a pattern has a wildcard."""
    return not _GLOB.isdisjoint(pattern)


def match(image: Image, pattern: str) -> tuple[Match, ...]:
    """Everything that a pattern means, functions first, each address once.

    Parts that the compiler split off (`.cold`) are left out. The exported symbols are asked before
    .symtab. Raises ElfError, VaguePatternError.
    """
    others: tuple[Match, ...] = ()
    for section in TABLES:
        if section not in image.sections:
            continue
        found = once(each for each in _search(image, section, pattern) if not each.symbol.cold)
        if any(each.kind == "function" for each in found):
            return found
        others = others or found
    return others


def once(matches: Iterable[Match]) -> tuple[Match, ...]:
    """Functions first, by address; of several names of an address the first in the alphabet."""
    ordered = sorted(matches, key=lambda each: (each.kind != "function", each.symbol))
    first: dict[tuple[int, str], Match] = {}
    for each in ordered:
        # What is imported has no address.
        first.setdefault((each.symbol.address, each.symbol.name * (each.kind == "imported")), each)
    return tuple(first.values())


def spelled_words(pattern: str) -> list[str]:
    """The identifiers of a pattern that stand in every mangled name it means."""
    text = re.sub(r"\[[^\]]*\]?", "*", pattern)
    # Next to a wildcard a word may be a part of an identifier, which is spelled out all the same.
    return [word for word in re.findall(r"\w+", text) if word not in _CODED]


def without_parameters(demangled: str) -> str:
    """`f(int)::{lambda()#1}::operator()() const` up to its last parameter list: all but that."""
    text = re.sub(r"( const| volatile| &&?| \[clone [^\]]*\]|\[abi:\w+\])+$", "", demangled)
    if not text.endswith(")"):
        return text
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] == ")") - (text[place] == "(")
        if depth == 0:
            return text[:place]
    return text


def _search(image: Image, section: str, pattern: str) -> Iterator[Match]:
    if "::" in pattern and not is_glob(pattern):
        # Before the whole table is read: with 100,000 symbols that takes 50 ms.
        yield from _named(image, section, pattern)
        return
    table = SymbolTable(image, section)
    if "::" in pattern:
        yield from demangled_glob(table, pattern)
    elif is_glob(pattern):
        rows = table.rows_that_fit(pattern)
        if len(rows) > MAX_DEMANGLED:
            raise VaguePatternError(f"{pattern} means {len(rows)} symbols")
        yield from map(table.at, rows)
    else:
        exact = tuple(table.exact(pattern))
        yield from exact or _named(image, section, pattern)


class VaguePatternError(StallwatchError):
    """A glob means too many symbols, or would have too many names demangled."""


def demangled_glob(table: SymbolTable, pattern: str) -> Iterator[Match]:
    """The symbols whose demangled name without parameters fits a glob.

    Raises VaguePatternError.
    """
    shape = re.compile(fnmatch.translate(pattern))
    rows = table.rows_with(spelled_words(pattern))
    if len(rows) > MAX_DEMANGLED:
        raise VaguePatternError(f"{pattern} may mean any of {len(rows)} symbols")
    for row in rows:
        each = table.at(row)
        if shape.match(without_parameters(each.symbol.demangled)):
            yield each


def _named(image: Image, section: str, name: str) -> Iterator[Match]:
    for symbol in find_functions(image, name, (section,)):
        yield Match(symbol, "function", section)
