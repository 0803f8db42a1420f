"""The silences of an agent and its API, built for a configuration."""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.state.file import StateFile
from notifiers.api.application import ROOT, AlertmanagerApi
from notifiers.api.original import original
from notifiers.api.sources import AlertTable
from notifiers.api.status import Status
from notifiers.origin import Origin
from notifiers.silences.store import Silences
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.alerts.alert import Alert, Suppression
    from engine.config.model import Config
    from engine.http.message import Handler
    from engine.labels import Labels
    from engine.telemetry import OwnSample
    from notifiers.routing.tree import Route
    from notifiers.silences.silence import State

logger = logging.getLogger(__name__)


class SilenceService:
    """What `engine.protocols.Delivery` owes of silences and API. `clock`: unix milliseconds.

    `root`: the routing tree.
    Raises StallwatchError when the database cannot be opened.
    """

    def __init__(
        self, config: Config, root: Route, state: str | StateFile, clock: Callable[[], int]
    ) -> None:
        try:
            self.silences = Silences(state)
        except sqlite3.Error as error:
            raise StallwatchError(
                f"{StateFile.of(state).path}: cannot be used as outbox or for silences: {error}"
            ) from error
        self._clock = clock
        self._status = Status(clock(), original(config))
        self._receivers = tuple(one.name for one in config.receivers)
        self._table = AlertTable(tuple, root, self.silences, clock, Origin.of(config).relabelled)

    def show_kept_back(
        self,
        kept_back: Callable[[Labels], Suppression],
        sent: Callable[[Labels], Labels | None],
    ) -> None:
        """What the dispatcher knows: from the labels that are sent to what inhibits or mutes an
        alert, and from an alert's own labels to those that are sent, None where it is dropped.
        """  # noqa: D205 - one sentence
        self._table = replace(self._table, kept_back=kept_back, sent=sent)

    def suppression(self, alert: Alert) -> Suppression:
        """What keeps notifications of an alert back now."""
        return self._table.suppression(alert)

    def mounted(self, alerts: Callable[[], Sequence[Alert]]) -> Mapping[str, Handler]:
        """The API over the alerts of the rules."""
        sources = replace(self._table, active=alerts)
        api = AlertmanagerApi(sources, self.silences, self._status, self._receivers, self._clock)
        return {ROOT: api.handle}

    def samples(self) -> list[OwnSample]:
        """`stallwatch_silences`, none while the database cannot be read."""
        now_ms = self._clock()
        try:
            counted = Counter(one.state(now_ms) for one in self.silences.listed(now_ms))
        except sqlite3.Error as error:
            logger.warning("the silences cannot be read: %s", error)
            return []
        states: tuple[State, ...] = ("active", "pending", "expired")
        return [
            ("stallwatch_silences", (("state", state),), "gauge", float(counted[state]))
            for state in states
        ]

    def close(self) -> None:
        """Close the database."""
        self.silences.close()
