"""Where in Slack the message of each group stands, so that the next one can edit or answer it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.slotted import dataclass, field

if TYPE_CHECKING:
    import sqlite3

MOST_KEPT = 1000
_TABLE = "notify_slack_place"
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS {_TABLE} (
    integration TEXT NOT NULL,
    group_key TEXT NOT NULL,
    channel TEXT NOT NULL,
    ts TEXT NOT NULL,
    PRIMARY KEY (integration, group_key)
)
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A message in Slack: the channel's id and the message's time stamp, which is its name."""

    channel: str
    ts: str


@dataclass(slots=True)
class Places:
    """By group key, the latest last. One thread uses it.

    What is not saved when the agent is killed costs a group a second message and nothing else.
    """

    known: dict[str, Place] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

    def put(self, group_key: str, place: Place | None) -> None:
        """The group's message stands there; None: its next one is a new one."""
        if self.known.get(group_key) == place:
            return
        self.known.pop(group_key, None)
        if place is not None:
            self.known[group_key] = place
        self.changed.add(group_key)
        while len(self.known) > MOST_KEPT:
            oldest = next(iter(self.known))
            del self.known[oldest]
            self.changed.add(oldest)

    def load(self, connection: sqlite3.Connection, integration: str) -> None:
        """What an earlier process saved. Raises sqlite3.Error."""
        if not _exists(connection):
            return
        rows = connection.execute(
            f"SELECT group_key, channel, ts FROM {_TABLE} WHERE integration = ? ORDER BY rowid",  # noqa: S608 - a constant
            (integration,),
        )
        for group_key, channel, ts in rows:
            self.known.setdefault(group_key, Place(channel, ts))

    def save(self, connection: sqlite3.Connection, integration: str) -> None:
        """Keep what changed. Raises sqlite3.Error."""
        if not self.changed:
            return
        if not _exists(connection):
            connection.execute(_SCHEMA)
        for group_key in sorted(self.changed):
            place = self.known.get(group_key)
            connection.execute(
                f"DELETE FROM {_TABLE} WHERE integration = ? AND group_key = ?",  # noqa: S608 - a constant
                (integration, group_key),
            )
            if place is not None:
                connection.execute(
                    f"INSERT INTO {_TABLE} VALUES (?, ?, ?, ?)",  # noqa: S608 - a constant
                    (integration, group_key, place.channel, place.ts),
                )
            self.changed.discard(group_key)


def _exists(connection: sqlite3.Connection) -> bool:
    found = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (_TABLE,)
    )
    return found.fetchone() is not None
