"""What rate limits hold back, in state.db. When messages were made is in the outbox already."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from notifiers.dispatch.limiting import Budget, Tally
from notifiers.dispatch.log import LogEntry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping

    from notifiers.dispatch.limiting import Limiter, RateLimit

ReadT = TypeVar("ReadT")
logger = logging.getLogger(__name__)

_SCHEMA = """
-- What was held back of an integration and not said yet.
CREATE TABLE IF NOT EXISTS notify_tally (
    integration TEXT PRIMARY KEY,
    messages INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,
    names TEXT NOT NULL
);
-- Groups that wait, the first in front, with what the log would have of them.
CREATE TABLE IF NOT EXISTS notify_waiting (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    integration TEXT NOT NULL,
    group_key TEXT NOT NULL,
    entry TEXT NOT NULL,
    UNIQUE (integration, group_key)
);
"""


def create_table(connection: sqlite3.Connection) -> None:
    """Make the table if it is missing."""
    connection.executescript(_SCHEMA)


def read_budgets(
    connection: sqlite3.Connection, limits: Mapping[str, RateLimit], now_ms: int
) -> dict[str, Budget]:
    """Of integrations that have a limit; what cannot be read is left out, and said in the log."""
    found = {integration: Budget() for integration in limits}
    for integration, messages, since_ms, text in connection.execute(
        "SELECT integration, messages, since_ms, names FROM notify_tally"
    ):
        names = _read(integration, text, _names)
        if integration in found and names is not None:
            found[integration].tally = Tally(messages, since_ms, names)
    for integration, group_key, text in connection.execute(
        "SELECT integration, group_key, entry FROM notify_waiting ORDER BY sequence"
    ):
        entry = _read(integration, text, _entry)
        if integration in found and entry is not None:
            found[integration].waiting[group_key] = entry
    for integration, limit in limits.items():
        made = connection.execute(
            "SELECT created_at_ms FROM notify_message WHERE integration = ? AND created_at_ms > ?"
            " ORDER BY sequence",
            (integration, now_ms - limit.per_ms),
        )
        found[integration].sent_ms.extend(at_ms for (at_ms,) in made)
    return found


def save_budgets(connection: sqlite3.Connection, limiter: Limiter) -> None:
    """Write what changed, in the caller's transaction; `limiter.saved()` is for after it."""
    for key in limiter.changed:
        if isinstance(key, str):
            tally = limiter.budget(key).tally
            row = (key, tally.messages, tally.since_ms, json.dumps(sorted(tally.names)))
            connection.execute("INSERT OR REPLACE INTO notify_tally VALUES (?, ?, ?, ?)", row)
            continue
        entry = limiter.expected(*key)
        if entry is None:
            connection.execute(
                "DELETE FROM notify_waiting WHERE integration = ? AND group_key = ?", key
            )
            continue
        # Who waits already keeps its place.
        connection.execute(
            "INSERT INTO notify_waiting (integration, group_key, entry) VALUES (?, ?, ?)"
            " ON CONFLICT (integration, group_key) DO UPDATE SET entry = excluded.entry",
            (*key, json.dumps(_row(entry))),
        )


def _read(integration: str, text: str, what: Callable[[Any], ReadT]) -> ReadT | None:
    try:
        return what(json.loads(text))
    except (ValueError, TypeError, KeyError):
        logger.exception("what was held back from %s cannot be read", integration)
        return None


def _names(found: list[str]) -> frozenset[str]:
    return frozenset(found)


def _row(entry: LogEntry) -> dict[str, Any]:
    return {
        "sent_ms": entry.sent_ms,
        "expires_ms": entry.expires_ms,
        "firing": sorted(entry.firing),
        "told": sorted(entry.told),
    }


def _entry(row: dict[str, Any]) -> LogEntry:
    return LogEntry(
        row["sent_ms"], row["expires_ms"], frozenset(row["firing"]), frozenset(row["told"])
    )
