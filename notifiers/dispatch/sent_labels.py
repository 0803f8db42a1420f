"""The labels with which alerts are sent: external ones added, then `alert_relabel_configs`.

Whoever routes, groups, silences, inhibits or hears of an alert knows it by these. State.db knows it
by the labels that its rule gave, so that no change of the configuration makes it another alert.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.fingerprint import fingerprint

if TYPE_CHECKING:
    from engine.labels import Labels
    from notifiers.dispatch.log import NotificationLog
    from notifiers.origin import Origin


class SentLabels:
    """Called with an alert's own labels; gives those that are sent, None where it is dropped.

    An alert that somebody was told of keeps the labels that it was told with until it has ended:
    its end has to fit its beginning, whatever the configuration says by now.
    """

    def __init__(self, origin: Origin, log: NotificationLog) -> None:
        self._origin = origin
        self._log = log
        # Told when nothing was written down of labels: by an earlier version, or as they were.
        self._as_it_was = log.owed() - log.sent_as.keys()

    def __call__(self, labels: Labels) -> Labels | None:
        """See the class."""
        if not (self._origin.relabelling or self._log.sent_as or self._as_it_was):
            return self._origin.labelled(labels)
        identity = fingerprint(labels)
        if (kept := self._log.sent_as.get(identity)) is not None:
            return kept
        if identity in self._as_it_was and self._log.owing(identity):
            return self._origin.labelled(labels)
        return self._origin.relabelled(labels)
