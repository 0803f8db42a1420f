"""Functions by their demangled name, in libraries with 100,000 symbols and more.

Demangling every name of libtorch_cpu.so takes seconds. A C++ name keeps its identifiers spelled out
when mangled, so the string table is searched for the identifier first, and only the names that
contain it are demangled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probes.elf.image import Image

# Elf64_Sym, elf(5).
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"),
     ("value", "<u8"), ("size", "<u8")]
)  # fmt: skip
STT_FUNC, STT_GNU_IFUNC = 2, 10
TABLES = (".dynsym", ".symtab")
COLD = ".cold"
# Of templates of templates names get some thousand characters long. A file may have any number of
# symbols share a name that never ends.
MAX_NAME_BYTES = 1 << 14
# Static functions of one name, each in its own source file.
MAX_NAMESAKES = 10_000


@dataclass(frozen=True, slots=True, order=True)
class Symbol:
    """A function: virtual address and size in bytes (0: the linker did not say)."""

    address: int
    size: int
    name: str
    demangled: str

    @property
    def cold(self) -> bool:
        """Whether this is the part that the compiler split off as unlikely."""
        return COLD in self.name

    def __contains__(self, address: int) -> bool:
        return self.address <= address < self.address + self.size


def find_functions(image: Image, name: str, tables: tuple[str, ...] = TABLES) -> tuple[Symbol, ...]:
    """Functions whose demangled name without parameters is `name` (`c10d::Reducer::finalize`).

    All overloads, each address once, cold parts included (`.cold`, only where the file has a
    .symtab), lambdas inside the function not. The exported symbols come first; .symtab is read only
    when they lack the name. Raises ElfError.
    """
    for table in tables:
        found = {symbol.address: symbol for symbol in _matches(image, table, name)}
        if any(not symbol.cold for symbol in found.values()):
            return tuple(sorted(found.values()))
    return ()


def _matches(image: Image, table: str, name: str) -> Iterator[Symbol]:
    section = image.sections.get(table)
    if section is None:
        return
    raw = image.content(table)
    symbols = np.frombuffer(raw, SYMBOL, count=len(raw) // SYMBOL.itemsize)
    kinds = symbols["info"] & 0xF
    defined = (symbols["section"] != 0) & ((kinds == STT_FUNC) | (kinds == STT_GNU_IFUNC))
    symbols = symbols[defined]
    strings = image.content(section.link)
    identifiers = [part.encode() for part in re.findall(r"\w+", name)]
    for start, at, end in _occurrences(strings, identifiers):
        # A linker may share the tail of one string as another's whole name.
        owners = symbols[(symbols["name"] >= start) & (symbols["name"] <= at)]
        for owner in owners[:MAX_NAMESAKES]:
            text = strings[int(owner["name"]) : end].decode("utf-8", "replace")
            demangled = demangle(text)
            if is_function_named(demangled, name):
                yield Symbol(int(owner["value"]), int(owner["size"]), text, demangled)


def _occurrences(strings: bytes, identifiers: list[bytes]) -> Iterator[tuple[int, int, int]]:
    """(start, place of the last identifier, end) of each string with all identifiers."""
    needle = identifiers[-1]
    at = strings.find(needle)
    while at >= 0:
        start, end = strings.rfind(b"\0", 0, at) + 1, strings.find(b"\0", at)
        end = len(strings) if end < 0 else end
        fits = end - start <= MAX_NAME_BYTES
        if fits and all(part in strings[start:end] for part in identifiers):
            yield start, at, end
        at = strings.find(needle, end)


def is_function_named(demangled: str, name: str) -> bool:
    """Whether a demangled name is the function `name` itself: any parameters, const, clones."""
    if not demangled.startswith(name):
        return False
    rest = re.sub(r"\[abi:\w+\]", "", demangled[len(name) :])
    # Parameter lists nest, so take them off from the inside; what is left must be decoration.
    while (shorter := re.sub(r"\([^()]*\)", "", rest)) != rest:
        rest = shorter
    return re.fullmatch(r"( const)?( \[clone [^\]]*\])*(\.\w+)*(@.*)?", rest) is not None


def demangle(name: str) -> str:
    """The C++ name, or the name itself when it is not one (C, or libstdc++ is missing)."""
    if not name.startswith("_Z"):
        return name
    try:
        import cxxfilt

        return str(cxxfilt.demangle(name))
    except (ImportError, OSError):
        return name
    except cxxfilt.InvalidName:
        return name
