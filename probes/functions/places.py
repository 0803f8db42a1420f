"""Where in a file a function is probed: its entries and its exits, as file offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probes.elf.entries import entry_offset
from probes.elf.exits import find_exits, landing
from probes.elf.image import NotCodeError
from probes.functions.matching import TABLES, VaguePatternError, match
from probes.functions.search import suggest
from probes.functions.table import SymbolTable
from rules.slotted import dataclass

if TYPE_CHECKING:
    from probes.elf.image import Image
    from probes.functions.function import Function
    from probes.functions.table import Match

# The collector waits for a suggestion; with more symbols that takes longer than 0.1 s.
MAX_SEARCHED = 50_000


@dataclass(frozen=True, slots=True)
class Place:
    """A symbol's entry and exits, as file offsets; `untold`: why its exits are not known.

    `size`: bytes of code from the entry on; 0: the linker did not say.
    """

    name: str
    entry: int
    exits: tuple[int, ...] = ()
    untold: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Places:
    """All of a function's symbols in one file. `reason`: a stable word for what is amiss."""

    symbols: tuple[Place, ...] = ()
    reason: str = ""
    detail: str = ""
    mend: str = ""

    @property
    def exits_known(self) -> bool:
        """Whether every symbol has exits, so that each call can be timed."""
        return bool(self.symbols) and not any(place.untold for place in self.symbols)

    def plan(self, function: Function) -> list[tuple[str, int]]:
        """(program, offset) in the order of attaching: exits before their entries."""
        steps: list[tuple[str, int]] = []
        for place in self.symbols:
            if not function.leave:
                steps.append((function.enter, place.entry))
            elif place.untold:
                steps.append((function.mark or function.enter, place.entry))
            else:
                steps += [(function.leave, offset) for offset in place.exits]
                steps.append((function.enter, place.entry))
        return steps


def find_places(image: Image, function: Function) -> Places:
    """Look a function up in a file. Raises ElfError for a broken file."""
    matches: dict[int, Match] = {}
    try:
        for pattern in function.symbols:
            matches.update((each.symbol.address, each) for each in match(image, pattern))
    except VaguePatternError as error:
        return Places((), "too_many_functions", str(error), "name them more closely")
    functions = sorted((m for m in matches.values() if m.kind == "function"), key=_by_address)
    if not functions:
        return Places((), *_absence(image, function, list(matches.values())))
    if len(functions) > function.most:
        return Places(
            (),
            "too_many_functions",
            f"{' '.join(function.symbols)} means {len(functions)} functions, more than "
            f"{function.most}",
            "name them more closely",
        )
    try:
        found = tuple(_place(image, each, timed=bool(function.leave)) for each in functions)
    except NotCodeError as error:
        return Places((), "not_a_function", str(error))
    untold = [place for place in found if place.untold]
    if untold:
        detail = f"calls of {untold[0].name} are counted, not timed: {untold[0].untold}"
        return Places(found, "no_exits", detail)
    return Places(found)


def _by_address(found: Match) -> int:
    return found.symbol.address


def _place(image: Image, found: Match, *, timed: bool) -> Place:
    entry = entry_offset(image, found.symbol.address)
    if not timed:
        return Place(found.symbol.name, entry, size=found.symbol.size)
    size, exits = found.symbol.size, find_exits(image, found.symbol)
    if found.symbol.address in exits.addresses:
        # Two programs on one instruction would run in any order, and time nothing.
        target = landing(image, found.symbol)
        if target is None:
            return Place(found.symbol.name, entry, (), "it leaves at its first instruction")
        size = target.size
        entry, exits = entry_offset(image, target.address), find_exits(image, target)
    offsets = tuple(image.code_offset(address) for address in exits.addresses)
    return Place(found.symbol.name, entry, offsets, exits.reason, size)


def _absence(image: Image, function: Function, others: list[Match]) -> tuple[str, str, str]:
    if function.optional:
        return "", "", ""
    name = " ".join(function.symbols)
    if not others:
        return "symbol_missing", f"it has no {name}", _meant(image, function)
    kind, found = others[0].kind, others[0].symbol.name
    if kind == "data":
        return "not_a_function", f"{found} is data, not a function", ""
    if kind == "ifunc":
        detail = f"{found} is chosen at load time (IFUNC): only its chooser has this name"
        return "not_a_function", detail, "name the variant that is chosen"
    return "symbol_missing", f"it only calls {found}, which another library defines", ""


def _meant(image: Image, function: Function) -> str:
    """What was meant, where that is found out in a moment."""
    tables = [SymbolTable(image, name) for name in TABLES if name in image.sections]
    near: tuple[str, ...] = ()
    if sum(map(len, tables)) <= MAX_SEARCHED:
        near = suggest(tables, function.symbols[0])[:3]
    if near:
        return f"did you mean {' or '.join(near)}?"
    return "stallwatch probes find shows what it has"
