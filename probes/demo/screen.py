"""What the demo shows: dated lines, an alert in full, and on a terminal a line that moves."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, TextIO

from engine.alerts.wording import cell, connection, inert, process
from engine.timestamps import format_rfc3339

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.alerts.alert import Alert, EvidenceEntry

_CLEAR = "\r\x1b[2K"
INDENT = " " * 22


class Screen:
    """Writes to `out`; the moving line only where that is a terminal."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = sys.stdout if out is None else out
        self.moving = self._out.isatty()
        self._shown = False

    def say(self, time_ms: int, *lines: str) -> None:
        """A dated line; what follows stands below it."""
        self.plain(
            f"{format_rfc3339(time_ms // 1000 * 1000)}  {lines[0]}",
            *(f"{INDENT}{line}".rstrip() for line in lines[1:]),
        )

    def plain(self, *lines: str) -> None:
        """Lines without a date."""
        self.clear()
        for line in lines:
            self._out.write(f"{line}\n")
        self._out.flush()

    def status(self, text: str) -> None:
        """Show the present state in the last line, over the state before."""
        if self.moving:
            self._out.write(f"{_CLEAR}{INDENT}{text}")
            self._out.flush()
            self._shown = True

    def clear(self) -> None:
        """Take the moving line away."""
        if self._shown:
            self._out.write(_CLEAR)
            self._shown = False


def alert_lines(alert: Alert) -> list[str]:
    """An alert in full: annotations, labels, evidence."""
    texts = [inert(alert.annotations.get(name, "")) for name in ("summary", "description")]
    labels = ", ".join(
        f"{name}={inert(value)}" for name, value in alert.labels.without("alertname")
    )
    lines = [line for text in texts for line in textwrap.wrap(text, 100 - len(INDENT))]
    lines.append(f"labels: {labels}")
    if alert.annotations.get("runbook_url"):
        lines.append(f"runbook: {inert(alert.annotations['runbook_url'])}")
    if alert.evidence:
        lines += ["", *evidence_table(alert.evidence), ""]
    return lines


def evidence_table(evidence: Sequence[EvidenceEntry]) -> list[str]:
    """The connections that retransmitted, one a line, most first."""
    heads = ("RANK", "PROCESS", "CONNECTION", "RETRANSMITS")
    rows = [
        (
            cell(entry, "rank") or "?",
            process(entry),
            connection(entry),
            cell(entry, "retransmits"),
        )
        for entry in evidence
        if "retransmits" in entry
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *rows)
    ]
