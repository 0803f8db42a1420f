"""The demo's delivery: alerts go to the screen instead of to a receiver."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

from engine.alerts.alert import Suppression

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence

    from engine.alerts.alert import Alert
    from engine.config.model import Config
    from engine.http.message import Handler
    from engine.state.file import StateFile
    from engine.telemetry import OwnSample


class Inbox:
    """An `OpenDelivery` and its delivery in one; alerts show once they are committed."""

    def __init__(self) -> None:
        self._enqueued: list[Alert] = []
        self._committed: queue.SimpleQueue[Alert] = queue.SimpleQueue()

    def __call__(self, config: Config, state: StateFile) -> Inbox:  # noqa: ARG002 - the protocol's
        """Itself."""
        return self

    def enqueue(self, connection: sqlite3.Connection, alerts: Sequence[Alert]) -> None:  # noqa: ARG002 - the protocol's
        """Keep them until `wake`."""
        self._enqueued += alerts

    def start(self) -> None:
        """Nothing has to be opened."""

    def wake(self) -> None:
        """The evaluation is committed: its alerts may be seen."""
        enqueued, self._enqueued = self._enqueued, []
        for alert in enqueued:
            self._committed.put(alert)

    def samples(self) -> Sequence[OwnSample]:
        """Nothing is counted."""
        return ()

    def suppression(self, alert: Alert) -> Suppression:  # noqa: ARG002 - the protocol's
        """Nothing is kept back."""
        return Suppression()

    def mounted(self, alerts: Callable[[], Sequence[Alert]]) -> Mapping[str, Handler]:  # noqa: ARG002 - the protocol's
        """Nothing is answered."""
        return {}

    def stop(self, timeout_seconds: float) -> None:
        """Nothing is open."""

    def arrived(self) -> list[Alert]:
        """What has come since the last call."""
        return [self._committed.get() for _ in range(self._committed.qsize())]
