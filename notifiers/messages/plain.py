"""A notification as plain text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from notifiers.messages.brevity import brief, short_facts, short_head, short_notes
from notifiers.messages.composition import compose
from notifiers.messages.folding import BRIEF, FULL, Assembled, assemble, cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from notifiers.messages.composition import Facts, Message, Part, Table
    from notifiers.notification import Notification

MAX_TEXT_BYTES = 100_000
_INDENT = "   "
# Pieces have an empty line on either side, where they want one; together these are one.
_GAP = re.compile(r"\n{3,}")


def text(notification: Notification, limit: int = MAX_TEXT_BYTES) -> str:
    """The message with its subject above it, in at most `limit` bytes of UTF-8."""
    return laid_out(compose(notification), limit, titled=True).text


def laid_out(message: Message, limit: int, *, titled: bool) -> Assembled:
    """A message that was composed before; `titled`: with the subject above it."""
    laid = assemble(message, _Plain(message, titled), limit)
    return Assembled(cut(_GAP.sub("\n\n", laid.text), limit), laid.shown)


@dataclass(frozen=True, slots=True)
class _Plain:
    """`folding.Pieces` as lines; each piece ends its own."""

    message: Message
    titled: bool

    def head(self, level: int) -> str:
        message = self.message
        lines = [message.title] if self.titled else []
        lines += [message.notice] if message.notice else []
        if level == 0:
            return _lines([*lines, *message.notes, *_block(message.facts)])
        if level == 1:
            return _lines([*lines, *short_notes(message.notes), *_block(short_head(message))])
        return _lines(lines)

    def section(self, status: str, count: int) -> str:
        return _lines(["", f"{status.capitalize()} ({count}):", ""])

    def part(self, place: int, detail: int) -> str:
        part = self.message.parts[place]
        if not self.message.grouped:
            return _lines(_single(part, detail))
        if detail == BRIEF:
            return _lines([f"{place + 1}. {brief(part)}"])
        first, *others = [part.heading, *_detailed(part, detail)]
        indented = (f"{_INDENT}{line}".rstrip() for line in others)
        return _lines(["", f"{place + 1}. {first}", *indented, ""])

    def fold(self, line: str) -> str:
        return _lines(["", line])

    def closing(self, level: int) -> str:
        lines = [""]
        if self.message.silence and level < 2:
            lines.append(f"To silence: {self.message.silence}")
        return "\n".join([*lines, self.message.footer])


def _single(part: Part, detail: int) -> list[str]:
    """The only alert of a message: the message's title says its name."""
    if detail == BRIEF:
        return [brief(part)]
    notes = part.notes if detail == FULL else short_notes(part.notes)
    facts = part.facts if detail == FULL else short_facts(part)
    return [*notes, *_block(facts), *_evidence(part, detail)]


def _detailed(part: Part, detail: int) -> list[str]:
    notes = part.notes if detail == FULL else short_notes(part.notes)
    lines = [line for note in notes for line in note.split("\n")]
    facts = part.facts if detail == FULL else short_facts(part)
    return [*lines, *_aligned(facts), *_evidence(part, detail)]


def _evidence(part: Part, detail: int) -> list[str]:
    lines: list[str] = []
    for table in part.tables if detail == FULL else ():
        lines += ["", f"{table.heading}:", *_columns(table)]
        if table.folded:
            lines.append(f"  and {table.folded} more")
    return lines


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _block(facts: Facts) -> list[str]:
    return ["", *_aligned(facts)] if facts else []


def _aligned(facts: Facts) -> list[str]:
    width = max((len(name) for name, _ in facts), default=0) + 1
    return [f"{name + ':':<{width}} {value}" for name, value in facts]


def _columns(table: Table) -> list[str]:
    grid = (table.columns, *table.rows)
    widths = [max(len(row[i]) for row in grid) for i in range(len(table.columns))]
    return [
        "  "
        + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in grid
    ]
