"""After a database was damaged: what memory or another table knows is written again.

Whatever was told and cannot be read may not have been told. So each entry of the notification log
counts as expired: what fires is told anew, and what is owed is still owed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.alert import AlertState
from engine.alerts.fingerprint import fingerprint
from engine.rulegroup.state import firing_alerts
from engine.state.rows import read_groups
from notifiers.dispatch import budget_rows, flap_rows, tables
from notifiers.dispatch.group import is_firing
from rules.slotted import replace

if TYPE_CHECKING:
    import sqlite3

    from engine.alerts.alert import Alert
    from notifiers.dispatch.dispatcher import Dispatcher
    from notifiers.dispatch.log import NotificationLog


def write_again(
    connection: sqlite3.Connection, dispatcher: Dispatcher, log: NotificationLog
) -> None:
    """What a dispatcher has in memory, where the database has not what is newer."""
    if dispatcher.flaps is not None:
        # Before groups, which have one that flaps as one that fires.
        tables.put_missing_alerts(connection, dispatcher.flaps.alerts())
        dispatcher.flaps.all_changed()
        flap_rows.save_courses(connection, dispatcher.flaps)
    dispatcher.limiter.all_changed()
    budget_rows.save_budgets(connection, dispatcher.limiter)
    for group in dispatcher.groups():
        tables.put_missing_alerts(connection, group.alerts.values())
    tables.put_timers(connection, dispatcher.groups())
    log.all_changed()
    tables.save_log(connection, log)


def doubt(connection: sqlite3.Connection, now_ms: int) -> None:
    """Nobody can be sure to have been told of what fires."""
    connection.execute("UPDATE notify_log SET expires_ms = min(expires_ms, ?)", (now_ms,))


def settle_with_rules(connection: sqlite3.Connection, now_ms: int) -> None:
    """At a start: alerts as the rules' state has them, of which something may be missing, too.

    One that fires by the rules' state is told. One that no rule's state has any more is resolved:
    if it still holds it fires anew, but it would never end otherwise.
    """
    firing = {
        fingerprint(alert.labels): alert
        for state in read_groups(connection).values()
        for alert in firing_alerts(state.rules.values())
    }
    tables.put_missing_alerts(connection, firing.values())
    _, known = tables.alerts_since(connection, 0)
    gone = [one for one in known if is_firing(one) and fingerprint(one.labels) not in firing]
    tables.put_alerts(connection, [_ended(one, now_ms) for one in gone])


def _ended(alert: Alert, now_ms: int) -> Alert:
    return replace(alert, state=AlertState.RESOLVED, resolved_at_ms=now_ms)
