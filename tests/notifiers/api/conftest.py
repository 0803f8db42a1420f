"""An API over a store in a file and alerts that a test sets."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from engine.alerts.alert import Alert, AlertState, Suppression
from engine.alerts.matchers import parse_matchers
from engine.http.message import Request, Response
from engine.labels import Labels
from notifiers.api.application import AlertmanagerApi
from notifiers.api.status import Status
from notifiers.silences.store import Silences

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from notifiers.api.sources import RoutedAlert, RoutedGroup

NOW_MS = 1_700_000_000_000


def firing(name: str = "Slow", **labels: str) -> Alert:
    return Alert(
        labels=Labels({"alertname": name, **labels}),
        annotations={"summary": "many"},
        state=AlertState.FIRING,
        value=1.0,
        active_at_ms=NOW_MS - 120_000,
        fired_at_ms=NOW_MS - 60_000,
        last_evaluation_ms=NOW_MS - 5_000,
        generator_url="http://n1:9466/graph",
    )


@dataclass
class Routed:
    """`RoutedAlerts` as a test sets them."""

    routed: list[RoutedAlert] = field(default_factory=list)
    grouped: list[RoutedGroup] = field(default_factory=list)

    def alerts(self) -> Sequence[RoutedAlert]:
        return self.routed

    def groups(self) -> Sequence[RoutedGroup]:
        return self.grouped

    def suppression(self, alert: Alert) -> Suppression:
        return Suppression()


@dataclass
class Api:
    """`now_ms` is the clock."""

    silences: Silences
    routed: Routed = field(default_factory=Routed)
    now_ms: int = NOW_MS

    def ask(
        self, method: str, path: str, body: Any = None, **parameters: str | Sequence[str]
    ) -> Response:
        status = Status(NOW_MS, "route:\n  receiver: oncall\n")
        app = AlertmanagerApi(
            self.routed, self.silences, status, ["oncall", "quiet"], lambda: self.now_ms
        )
        asked = {
            name: (given,) if isinstance(given, str) else tuple(given)
            for name, given in parameters.items()
        }
        text = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        kind = "application/json" if text else "text/plain"
        return app.handle(Request(method, path, asked, body=text, content_type=kind))

    def get(self, path: str, **parameters: str | Sequence[str]) -> Any:
        reply = self.ask("GET", path, **parameters)
        assert reply.status == 200, reply
        return json.loads(reply.body)

    def post(self, body: Any) -> Any:
        reply = self.ask("POST", "/api/v2/silences", body)
        assert reply.status == 200, reply
        return json.loads(reply.body)["silenceID"]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    silences = Silences(str(tmp_path / "state.db"))
    yield Api(silences)
    silences.close()


@pytest.fixture
def support() -> Any:
    class Support:
        now_ms = NOW_MS
        firing = staticmethod(firing)
        matchers = staticmethod(parse_matchers)

        @staticmethod
        def postable(**changes: Any) -> dict[str, Any]:
            """A silence of an hour from now on, as amtool posts it."""
            return {
                "matchers": [
                    {"name": "alertname", "value": "Slow", "isRegex": False, "isEqual": True},
                ],
                "startsAt": "2023-11-14T22:13:20.000Z",
                "endsAt": "2023-11-14T23:13:20.000Z",
                "createdBy": "jane",
                "comment": "host is being repaired",
            } | changes

    return Support
