"""Messages that were given up, as the dispatcher must know of them: what they told was not told."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from rules.slotted import dataclass

if TYPE_CHECKING:
    import sqlite3

logger = logging.getLogger(__name__)

SCHEMA = """
-- What a message said that was given up; the dispatcher takes it out of its log.
CREATE TABLE IF NOT EXISTS notify_refusal (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    message INTEGER NOT NULL,
    integration TEXT NOT NULL,
    group_key TEXT NOT NULL,
    firing TEXT NOT NULL,
    unheard TEXT NOT NULL
);
"""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Fingerprints: of what the message said is firing, and of what no other message told of."""

    sequence: int
    integration: str
    group_key: str
    firing: frozenset[str]
    unheard: frozenset[str]


def put_refusal(
    connection: sqlite3.Connection, message: str, firing: set[str], unheard: set[str]
) -> None:
    """In the transaction in which the message with this id is given up."""
    connection.execute(
        "INSERT INTO notify_refusal (message, integration, group_key, firing, unheard)"
        " SELECT sequence, integration, group_key, ?, ? FROM notify_message WHERE id = ?",
        (json.dumps(sorted(firing)), json.dumps(sorted(unheard)), message),
    )


def refusals(connection: sqlite3.Connection) -> list[Refusal]:
    """Oldest first. What a later message tells of that was not given up is not among them.

    What cannot be read is left out, and said in the log.
    """
    found = []
    for sequence, message, integration, group_key, firing, unheard in connection.execute(
        "SELECT sequence, message, integration, group_key, firing, unheard FROM notify_refusal"
        " ORDER BY sequence"
    ).fetchall():
        later = connection.execute(
            "SELECT firing FROM notify_message WHERE integration = ? AND group_key = ?"
            " AND sequence > ? AND state != 'failed'",
            (integration, group_key, message),
        )
        try:
            heard = frozenset[str]().union(*(json.loads(told) for (told,) in later))
            lost, news = (frozenset(json.loads(text)) - heard for text in (firing, unheard))
        except (ValueError, TypeError):
            logger.exception("what was refused to %s of %s cannot be read", integration, group_key)
            continue
        found.append(Refusal(sequence, integration, group_key, lost, news))
    return found


def drop_refusals(connection: sqlite3.Connection, sequence: int) -> None:
    """They are out of the notification log."""
    connection.execute("DELETE FROM notify_refusal WHERE sequence <= ?", (sequence,))
