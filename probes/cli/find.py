"""`stallwatch probes find LIB PATTERN`: what in a library can be probed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from probes.functions.files import open_files
from probes.functions.search import Facts, Found, Row, facts_of, search
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Answer:
    """One file and what was found in it; `problem`: why it could not be read."""

    file: str
    facts: Facts | None = None
    found: Found | None = None
    problem: str = ""


def find(library: str, pattern: str, limit: int, *, as_json: bool) -> int:
    """Print the symbols. Exit 0: some were found, 1: none."""
    answers = list(look(library, pattern, limit))
    hits = any(answer.found is not None and answer.found.total for answer in answers)
    if as_json:
        print(json.dumps([record(answer) for answer in answers], indent=2))
    else:
        print("\n\n".join(render(answer, pattern) for answer in answers))
    return 0 if hits else 1


def look(library: str, pattern: str, limit: int) -> Iterable[Answer]:
    """Search each file that a name means. Raises StallwatchError when there is none."""
    for name, image in open_files(library):
        with image:
            try:
                yield Answer(name, facts_of(image), search(image, pattern, limit))
            except StallwatchError as error:
                yield Answer(name, problem=str(error))


def record(answer: Answer) -> dict[str, object]:
    """An answer for JSON."""
    if answer.found is None or answer.facts is None:
        return {"file": answer.file, "error": answer.problem}
    found, facts = answer.found, answer.facts
    return {
        "file": answer.file,
        "exported_functions": facts.exported,
        "symtab_functions": facts.internal,
        "stripped": facts.stripped,
        "static": facts.static,
        "note": facts.note,
        "total": found.total,
        "complete": found.complete,
        "symbols": [asdict(row) for row in found.rows],
        "suggestions": list(found.suggestions),
    }


def render(answer: Answer, pattern: str) -> str:
    """An answer for a terminal."""
    if answer.found is None or answer.facts is None:
        return answer.problem
    found, facts = answer.found, answer.facts
    counted = f"{facts.exported:,} exported functions"
    if not facts.stripped:
        counted += f", {facts.internal:,} in .symtab"
    lines = [answer.file, f"  {counted}"]
    if facts.note:
        lines.append(f"  {facts.note}")
    if found.total:
        lines += ["", f"  {'OFFSET':>12}  {'SIZE':>7}  {'EXITS':>5}  TABLE    SYMBOL"]
        lines += [line for row in found.rows for line in _row(row)]
    else:
        lines.append(f"  nothing is called '{pattern}'")
        if found.suggestions:
            lines += ["  did you mean:", *(f"    {name}" for name in found.suggestions)]
    if found.total > len(found.rows) or not found.complete:
        more = "" if found.complete else "at least "
        lines.append(f"\n  {len(found.rows)} of {more}{found.total:,}; --limit shows more")
    return "\n".join(lines)


def _row(row: Row) -> list[str]:
    if row.kind != "function":
        why = {
            "data": "data, not a function",
            "ifunc": "chosen at load time (IFUNC): probe the variant that is chosen",
            "imported": "imported: another library defines it",
        }[row.kind]
        return [f"  {'-':>12}  {row.size:>7}  {'-':>5}  {row.table:<7}  {row.name}  ({why})"]
    exits = str(row.exits) if row.exits else "none"
    lines = [f"  {row.offset:>#12x}  {row.size:>7}  {exits:>5}  {row.table:<7}  {row.name}"]
    indent = " " * 41
    if row.demangled != row.name:
        lines.append(f"{indent}{row.demangled}")
    if row.aliases:
        lines.append(f"{indent}also called {', '.join(row.aliases)}")
    if row.untold:
        lines.append(f"{indent}can be counted, not timed: {row.untold}")
    return lines
