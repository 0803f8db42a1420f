"""A notification as a person reads it at three in the morning: subject, text and HTML.

Label values come from the watched machine, so everything here is inert: one line where one line
is expected, no control characters, HTML escaped, and a length that no value can blow up.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from engine.alerts.wording import CONNECTION_FIELDS, cell, connection, inert, process
from engine.timestamps import format_rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.alerts.alert import Alert, EvidenceEntry
    from notifiers.notification import Notification

MAX_SUBJECT_CHARACTERS = 180
MAX_NOTE_CHARACTERS = 2000
MAX_ROWS = 10
MAX_LABELS = 20
# Said in the message's own lines, so not repeated among the labels.
_PLACED = frozenset({"alertname", "task_id", "node", "rank", "cluster"})
_SHOWN = CONNECTION_FIELDS | {"retransmits", "first", "last"}


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, column names and rows, every cell inert; `folded` more rows are not shown."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: int = 0


@dataclass(frozen=True, slots=True)
class Message:
    """The parts of a message about one alert; `facts` are (name, value), `notes` may have lines."""

    title: str
    notes: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    footer: str


def subject(notification: Notification) -> str:
    """`[FIRING] TcpRetransmitSpike torchrun:job42`: one line, whatever the labels hold."""
    labels = notification.group_labels
    parts = [f"[{notification.status.upper()}]", "[TEST]" if notification.test else ""]
    whose = labels.get("task_id") or labels.get("node") or notification.origin.node
    parts += [labels.get("alertname", "alert"), whose]
    if len(notification.alerts) > 1:
        parts.append(f"({len(notification.alerts)} alerts)")
    return inert(" ".join(part for part in parts if part), MAX_SUBJECT_CHARACTERS)


def text(notification: Notification) -> str:
    """The message as plain text."""
    return "\n\n".join(_text(compose(notification, alert)) for alert in notification.alerts)


def html(notification: Notification) -> str:
    """The message as a self-contained HTML document."""
    body = "<hr>".join(_html(compose(notification, alert)) for alert in notification.alerts)
    return (
        '<!doctype html><html><head><meta charset="utf-8"></head>'
        f'<body style="font-family:sans-serif">{body}</body></html>'
    )


def compose(notification: Notification, alert: Alert) -> Message:
    """Choose what to say about an alert, in the order in which one asks."""
    annotations = dict(alert.annotations)
    notes = [annotations.pop(name, "") for name in ("summary", "description")]
    runbook = annotations.pop("runbook_url", "") or annotations.pop("runbook", "")
    facts = [
        ("Task", alert.labels.get("task_id")),
        ("Node", alert.labels.get("node") or notification.origin.node),
        ("Cluster", alert.labels.get("cluster") or notification.origin.cluster),
        ("Ranks", _ranks(alert)),
        ("Value", f"{alert.value:.6g}"),
        ("Since", format_rfc3339(alert.active_at_ms)),
        ("Fired", _moment(alert.fired_at_ms)),
        ("Resolved", _moment(alert.resolved_at_ms)),
        ("Runbook", runbook),
    ]
    facts += [(name, value) for name, value in sorted(annotations.items())]
    facts.append(("Labels", _labels(alert)))
    return Message(
        title=subject(notification),
        notes=tuple(_note(note) for note in notes if note.strip()),
        facts=tuple((inert(name, 60), inert(value)) for name, value in facts if value),
        tables=tuple(_tables(alert.evidence)),
        footer=f"stallwatch, message {notification.id}",
    )


def _note(note: str) -> str:
    """An annotation's own lines, each inert, all together bounded."""
    lines = [inert(line, MAX_NOTE_CHARACTERS) for line in note.strip().splitlines()[:30]]
    joined = "\n".join(lines)
    if len(joined) <= MAX_NOTE_CHARACTERS:
        return joined
    return f"{joined[: MAX_NOTE_CHARACTERS - 1]}…"


def _moment(time_ms: int | None) -> str:
    return "" if time_ms is None else format_rfc3339(time_ms)


def _ranks(alert: Alert) -> str:
    ranks = {str(entry["rank"]) for entry in alert.evidence if entry.get("rank") not in {None, ""}}
    ranks |= {alert.labels.get("rank")} - {""}
    return ", ".join(sorted(ranks, key=lambda rank: (len(rank), rank)))


def _labels(alert: Alert) -> str:
    rest = [(name, value) for name, value in alert.labels if name not in _PLACED]
    shown = [f"{name}={inert(value, 80)}" for name, value in rest[:MAX_LABELS]]
    if len(rest) > MAX_LABELS:
        shown.append(f"and {len(rest) - MAX_LABELS} more")
    return ", ".join(shown)


def _tables(evidence: Sequence[EvidenceEntry]) -> Iterable[Table]:
    connections = [entry for entry in evidence if connection(entry)]
    others = [entry for entry in evidence if not connection(entry)]
    if connections:
        columns = ["rank", "process", "connection", "retransmits"]
        extra = sorted({name for entry in connections for name in entry} - _SHOWN)
        rows = tuple(_connection_row(entry, extra) for entry in connections[:MAX_ROWS])
        folded = max(0, len(connections) - MAX_ROWS)
        yield Table("Connections", (*columns, *(inert(name, 40) for name in extra)), rows, folded)
    if others:
        names = sorted({name for entry in others for name in entry} - {"comm", "pid", "rank"})
        rows = tuple(
            (cell(entry, "rank"), process(entry), *(cell(entry, name) for name in names))
            for entry in others[:MAX_ROWS]
        )
        columns = ["rank", "process", *(inert(name, 40) for name in names)]
        yield Table("Evidence", tuple(columns), rows, max(0, len(others) - MAX_ROWS))


def _connection_row(entry: EvidenceEntry, extra: Sequence[str]) -> tuple[str, ...]:
    cells = (cell(entry, "rank"), process(entry), connection(entry), cell(entry, "retransmits"))
    return (*cells, *(cell(entry, name) for name in extra))


def _text(message: Message) -> str:
    lines = [message.title, *message.notes, ""]
    width = max((len(name) for name, _ in message.facts), default=0) + 1
    lines += [f"{name + ':':<{width}} {value}" for name, value in message.facts]
    for table in message.tables:
        lines += ["", f"{table.heading}:", *_columns(table)]
        if table.folded:
            lines.append(f"  and {table.folded} more")
    return "\n".join([*lines, "", message.footer])


def _columns(table: Table) -> list[str]:
    grid = (table.columns, *table.rows)
    widths = [max(len(row[i]) for row in grid) for i in range(len(table.columns))]
    return [
        "  "
        + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in grid
    ]


def _html(message: Message) -> str:
    parts = [f"<h2>{escape(message.title)}</h2>"]
    parts += [f"<p>{escape(note).replace(chr(10), '<br>')}</p>" for note in message.notes]
    facts = "".join(
        f'<tr><th align="left">{escape(name)}</th><td>{_link(value)}</td></tr>'
        for name, value in message.facts
    )
    parts.append(f'<table cellpadding="4">{facts}</table>')
    for table in message.tables:
        head = "".join(f'<th align="left">{escape(name)}</th>' for name in table.columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in table.rows
        )
        parts.append(
            f"<h3>{escape(table.heading)}</h3>"
            f'<table border="1" cellspacing="0" cellpadding="4"><tr>{head}</tr>{rows}</table>'
        )
        if table.folded:
            parts.append(f"<p>and {table.folded} more</p>")
    parts.append(f"<p><small>{escape(message.footer)}</small></p>")
    return "".join(parts)


def _link(value: str) -> str:
    """A web address becomes a link; nothing else does, `javascript:` least of all."""
    shown = escape(value)
    if value.startswith(("http://", "https://")) and " " not in value:
        return f'<a href="{shown}" rel="noreferrer">{shown}</a>'
    return shown
