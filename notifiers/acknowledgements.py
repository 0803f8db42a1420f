"""Acknowledgements: somebody has seen an alert, so that nobody is told of it again.

One holds for an alert as it fires now. Its end is told as ever and takes the acknowledgement with
it; when it fires again, that is news.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.alert import Acknowledgement
from engine.alerts.fingerprint import fingerprint
from engine.alerts.matchers import all_match
from notifiers.dispatch.group import is_firing
from notifiers.dispatch.tables import read_alert, sent_as
from notifiers.notification import fired_at_ms
from rules.slotted import dataclass

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping, Sequence

    from engine.alerts.alert import Alert
    from engine.alerts.matchers import Matcher
    from engine.labels import Labels


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Those that hold now, by the fingerprint of the alert and the time at which it fired."""

    by_firing: Mapping[tuple[str, int], Acknowledgement]

    def of(self, alert: Alert) -> Acknowledgement | None:
        """That of an alert, known by its own labels."""
        if not self.by_firing:
            return None
        return self.by_firing.get((fingerprint(alert.labels), fired_at_ms(alert)))


NOTHING = Acknowledged({})


def acknowledge(
    connection: sqlite3.Connection, matchers: Sequence[Matcher], given: Acknowledgement
) -> list[Labels]:
    """Acknowledge what fires and matches, in a transaction of the caller's; the alerts' labels.

    Alerts match by the labels that their rules gave or by those that are sent.
    """
    found = list(_firing(connection, matchers))
    connection.executemany(
        "INSERT OR REPLACE INTO notify_ack VALUES (?, ?, ?, ?, ?)",
        [
            (
                fingerprint(alert.labels),
                fired_at_ms(alert),
                given.author,
                given.comment,
                given.at_ms,
            )
            for alert in found
        ],
    )
    return [alert.labels for alert in found]


def withdraw(connection: sqlite3.Connection, matchers: Sequence[Matcher]) -> list[Labels]:
    """Take acknowledgements of what matches back, likewise; the labels of those that had one."""
    known = read_acknowledged(connection)
    found = [one.labels for one in _firing(connection, matchers) if known.of(one) is not None]
    connection.executemany(
        "DELETE FROM notify_ack WHERE fingerprint = ?", [(fingerprint(own),) for own in found]
    )
    return found


def read_acknowledged(connection: sqlite3.Connection) -> Acknowledged:
    """All that there are."""
    rows = connection.execute(
        "SELECT fingerprint, fired_at_ms, author, comment, at_ms FROM notify_ack"
    ).fetchall()
    return Acknowledged(
        {
            (identity, fired): Acknowledgement(author, comment, at_ms)
            for identity, fired, author, comment, at_ms in rows
        }
    )


def _firing(connection: sqlite3.Connection, matchers: Sequence[Matcher]) -> Iterator[Alert]:
    sent = sent_as(connection)
    rows = connection.execute("SELECT fingerprint, alert FROM notify_alert ORDER BY sequence")
    for identity, text in rows.fetchall():
        alert = read_alert(text)
        if alert is None or not is_firing(alert):
            continue
        both = (alert.labels, sent.get(identity, alert.labels))
        if any(all_match(matchers, labels) for labels in both):
            yield alert
