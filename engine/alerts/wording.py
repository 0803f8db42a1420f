"""Alert data as inert text for people: terminals, chats and mail alike.

Label values and command names come from the watched machine; none of them may end a line, move a
cursor or reverse the reading direction.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.alerts.alert import EvidenceEntry

MAX_VALUE_CHARACTERS = 300
MAX_CELL_CHARACTERS = 80
# The evidence fields that `connection` and `process` put into words, and the rank beside them.
CONNECTION_FIELDS = frozenset({"rank", "comm", "pid", "src", "sport", "dst", "dport"})


def inert(value: str, limit: int = MAX_VALUE_CHARACTERS) -> str:
    """One line without control, format or line-separating characters, cut to `limit`."""
    kept = value
    # Of printable ASCII nothing is taken out: nearly every value, and there can be thousands.
    if not (value.isascii() and value.isprintable()):
        kept = "".join(" " if unicodedata.category(char)[0] in "CZ" else char for char in value)
    line = " ".join(kept.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def cell(entry: EvidenceEntry, name: str) -> str:
    """One field of evidence, "" when it is missing."""
    value = entry.get(name, "")
    return f"{value:.6g}" if isinstance(value, float) else inert(str(value), MAX_CELL_CHARACTERS)


def process(entry: EvidenceEntry) -> str:
    """`python[4711]`."""
    pid = cell(entry, "pid")
    return f"{cell(entry, 'comm')}[{pid}]" if pid else cell(entry, "comm")


def connection(entry: EvidenceEntry) -> str:
    """`10.0.0.1:29500 → 10.0.0.2:41234`; "" when the entry is not about a connection."""
    if "src" not in entry and "dst" not in entry:
        return ""
    return f"{_endpoint(entry, 'src', 'sport')} → {_endpoint(entry, 'dst', 'dport')}"


def evidence_text(entry: EvidenceEntry) -> str:
    """One line: `rank 0 python[17] 10.0.0.1:4000 → 10.0.0.2:2950: 12 retransmits`."""
    who = [f"rank {cell(entry, 'rank')}" if entry.get("rank") else "no rank"]
    who += filter(None, (process(entry), connection(entry)))
    if "retransmits" in entry:
        return f"{' '.join(who)}: {cell(entry, 'retransmits')} retransmits"
    shown = CONNECTION_FIELDS | {"first", "last"}
    rest = ", ".join(f"{name} {cell(entry, name)}" for name in entry if name not in shown)
    return f"{' '.join(who)}: {rest}"


def _endpoint(entry: EvidenceEntry, address: str, port: str) -> str:
    host = cell(entry, address)
    return f"[{host}]:{cell(entry, port)}" if ":" in host else f"{host}:{cell(entry, port)}"
