"""A notification as a self-contained HTML document, for mail."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from notifiers.messages.brevity import brief, short_facts, short_head, short_notes
from notifiers.messages.composition import compose
from notifiers.messages.folding import BRIEF, FULL, assemble

if TYPE_CHECKING:
    from collections.abc import Sequence

    from notifiers.messages.composition import Facts, Message, Part, Table
    from notifiers.notification import Notification

# A large mailbox service cuts off what a mail has above 102 kB.
MAX_HTML_BYTES = 100_000
_HEAD = (
    '<!doctype html><html><head><meta charset="utf-8"></head><body style="font-family:sans-serif">'
)
_END = "</body></html>"


def html(notification: Notification, limit: int = MAX_HTML_BYTES) -> str:
    """The message in `limit` bytes of UTF-8, at least a few kilobytes."""
    message = compose(notification)
    return assemble(message, _Html(message), limit).text


@dataclass(frozen=True, slots=True)
class _Html:
    """`folding.Pieces` as HTML."""

    message: Message

    def head(self, level: int) -> str:
        message = self.message
        parts = [_HEAD, f"<h2>{escape(message.title)}</h2>"]
        parts += [f"<p><em>{escape(message.notice)}</em></p>"] if message.notice else []
        if level == 0:
            parts += [_paragraphs(message.notes), _facts(message.facts)]
        elif level == 1:
            parts += [_paragraphs(short_notes(message.notes)), _facts(short_head(message))]
        return "".join(parts)

    def section(self, status: str, count: int) -> str:
        return f"<h3>{escape(status.capitalize())} ({count})</h3>"

    def part(self, place: int, detail: int) -> str:
        part = self.message.parts[place]
        number = f"{place + 1}. " if self.message.grouped else ""
        if detail == BRIEF:
            return f"<p>{number}{escape(brief(part))}</p>"
        heading = f"<h4>{number}{escape(part.heading)}</h4>" if self.message.grouped else ""
        return heading + _detailed(part, detail)

    def fold(self, line: str) -> str:
        return f"<p>{escape(line)}</p>"

    def closing(self, level: int) -> str:
        parts = []
        if self.message.silence and level < 2:
            parts.append(f"<p>To silence: <code>{escape(self.message.silence)}</code></p>")
        return "".join([*parts, f"<p><small>{escape(self.message.footer)}</small></p>", _END])


def _detailed(part: Part, detail: int) -> str:
    if detail != FULL:
        return _paragraphs(short_notes(part.notes)) + _facts(short_facts(part))
    tables = "".join(_table(table) for table in part.tables)
    return _paragraphs(part.notes) + _facts(part.facts) + tables


def _paragraphs(notes: Sequence[str]) -> str:
    return "".join(f"<p>{escape(note).replace(chr(10), '<br>')}</p>" for note in notes)


def _facts(facts: Facts) -> str:
    rows = "".join(
        f'<tr><th align="left">{escape(name)}</th><td>{_link(value)}</td></tr>'
        for name, value in facts
    )
    return f'<table cellpadding="4">{rows}</table>' if rows else ""


def _table(table: Table) -> str:
    head = "".join(f'<th align="left">{escape(name)}</th>' for name in table.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    folded = f"<p>and {table.folded} more</p>" if table.folded else ""
    return (
        f"<h3>{escape(table.heading)}</h3>"
        f'<table border="1" cellspacing="0" cellpadding="4"><tr>{head}</tr>{rows}</table>{folded}'
    )


def _link(value: str) -> str:
    """A web address becomes a link; nothing else does, `javascript:` least of all."""
    shown = escape(value)
    if value.startswith(("http://", "https://")) and " " not in value:
        return f'<a href="{shown}" rel="noreferrer">{shown}</a>'
    return shown
