"""What rate limits hold back, in state.db. When messages were made is in the outbox already."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from notifiers.dispatch.limiting import Budget, Tally
from notifiers.dispatch.log import LogEntry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from notifiers.dispatch.limiting import Limiter, RateLimit

logger = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS notify_budget (
    integration TEXT PRIMARY KEY,
    messages INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,
    names TEXT NOT NULL,
    waiting TEXT NOT NULL
);
"""


def create_table(connection: sqlite3.Connection) -> None:
    """Make the table if it is missing."""
    connection.executescript(_SCHEMA)


def read_budgets(
    connection: sqlite3.Connection, limits: Mapping[str, RateLimit], now_ms: int
) -> dict[str, Budget]:
    """Of integrations that have a limit; what cannot be read is left out, and said in the log."""
    found: dict[str, Budget] = {}
    rows = connection.execute(
        "SELECT integration, messages, since_ms, names, waiting FROM notify_budget"
    )
    for integration, messages, since_ms, names, waiting in rows:
        if integration not in limits:
            continue
        try:
            tally = Tally(messages, since_ms, frozenset(json.loads(names)))
            entries = {key: _entry(row) for key, row in json.loads(waiting)}
        except (ValueError, TypeError, KeyError):
            logger.exception("what was held back from %s cannot be read", integration)
            continue
        found[integration] = Budget(waiting=entries, tally=tally)
    for integration, limit in limits.items():
        made = connection.execute(
            "SELECT created_at_ms FROM notify_message WHERE integration = ? AND created_at_ms > ?"
            " ORDER BY sequence",
            (integration, now_ms - limit.per_ms),
        )
        found.setdefault(integration, Budget()).sent_ms.extend(at_ms for (at_ms,) in made)
    return found


def save_budgets(connection: sqlite3.Connection, limiter: Limiter) -> None:
    """Write what changed, in the caller's transaction; `limiter.saved()` is for after it."""
    for integration in limiter.changed:
        own = limiter.budget(integration)
        connection.execute(
            "INSERT OR REPLACE INTO notify_budget VALUES (?, ?, ?, ?, ?)",
            (
                integration,
                own.tally.messages,
                own.tally.since_ms,
                json.dumps(sorted(own.tally.names)),
                json.dumps([[key, _row(entry)] for key, entry in own.waiting.items()]),
            ),
        )


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
