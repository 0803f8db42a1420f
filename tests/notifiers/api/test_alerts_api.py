"""/api/v2/alerts, its groups, the receivers and the status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from engine.alerts.alert import Suppression
from engine.alerts.fingerprint import fingerprint
from notifiers.api.sources import RoutedAlert, RoutedGroup

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture
def ranks(api: Any, support: Any) -> list[RoutedAlert]:
    """Rank 0 is told to oncall, 1 is silenced, 2 inhibited, 3 muted."""
    whys = [
        Suppression(),
        Suppression(silenced_by=("s",)),
        Suppression(inhibited_by=("f",)),
        Suppression(muted_by=("nights",)),
    ]
    api.routed.routed = [
        RoutedAlert(support.firing(rank=str(rank)), ("oncall",), why)
        for rank, why in enumerate(whys)
    ]
    found: list[RoutedAlert] = api.routed.routed
    return found


def shown_ranks(alerts: Sequence[Any]) -> set[str]:
    return {one["labels"]["rank"] for one in alerts}


def test_an_alert_is_shown_as_alertmanager_shows_it(api: Any, support: Any) -> None:
    alert = support.firing(rank="1")
    why = Suppression(silenced_by=("s",), inhibited_by=("f",))
    api.routed.routed = [RoutedAlert(alert, ("oncall", "quiet"), why)]
    assert api.get("/api/v2/alerts") == [
        {
            "annotations": {"summary": "many"},
            "endsAt": "2023-11-14T22:17:15.000Z",
            "fingerprint": fingerprint(alert.labels),
            "receivers": [{"name": "oncall"}, {"name": "quiet"}],
            "startsAt": "2023-11-14T22:12:20.000Z",
            "status": {
                "inhibitedBy": ["f"],
                "mutedBy": [],
                "silencedBy": ["s"],
                "state": "suppressed",
            },
            "updatedAt": "2023-11-14T22:13:15.000Z",
            "generatorURL": "http://n1:9466/graph",
            "labels": {"alertname": "Slow", "rank": "1"},
        }
    ]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, "0123"),
        ({"active": "false"}, "123"),
        ({"silenced": "false"}, "023"),
        ({"inhibited": "0"}, "013"),
        ({"silenced": "false", "inhibited": "false"}, "03"),
        ({"unprocessed": "false"}, "0123"),
        ({"filter": 'rank=~"1|3"'}, "13"),
        ({"filter": ["rank!=0", "rank!=1"]}, "23"),
        ({"filter": 'absent=""'}, "0123"),
        ({"receiver": "on.*"}, "0123"),
        ({"receiver": "on"}, ""),
    ],
)
def test_alerts_are_chosen_by_state_labels_and_receiver(
    parameters: dict[str, Any], expected: str, api: Any, ranks: list[RoutedAlert]
) -> None:
    assert shown_ranks(api.get("/api/v2/alerts", **parameters)) == set(expected)


def test_groups_hold_the_alerts_asked_for_and_empty_ones_are_left_out(
    api: Any, ranks: list[RoutedAlert]
) -> None:
    api.routed.grouped = [
        RoutedGroup("quiet", {"node": "b"}, (ranks[0], ranks[3])),
        RoutedGroup("oncall", {"node": "b"}, tuple(ranks)),
        RoutedGroup("oncall", {}, (ranks[1],)),
    ]

    def groups(**parameters: str) -> list[tuple[str, dict[str, str], set[str]]]:
        return [
            (one["receiver"]["name"], one["labels"], shown_ranks(one["alerts"]))
            for one in api.get("/api/v2/alerts/groups", **parameters)
        ]

    assert groups() == [
        ("oncall", {}, {"1"}),
        ("oncall", {"node": "b"}, {"0", "1", "2", "3"}),
        ("quiet", {"node": "b"}, {"0", "3"}),
    ]
    assert groups(silenced="false", receiver="oncall") == [
        ("oncall", {"node": "b"}, {"0", "2", "3"})
    ]
    assert groups(muted="false", receiver="quiet") == [("quiet", {"node": "b"}, {"0"})]


@pytest.mark.parametrize("path", ["/api/v2/alerts", "/api/v2/alerts/groups"])
@pytest.mark.parametrize(
    ("parameters", "status", "message"),
    [
        ({"active": "perhaps"}, 422, 'active in query must be of type boolean: "perhaps"'),
        ({"receiver": "("}, 400, "failed to parse receiver param"),
        ({"filter": "="}, 400, "bad matcher '='"),
        ({"filter": ["a=b"] * 101}, 400, "more than 100 filters"),
    ],
)
def test_a_bad_parameter_is_one_clear_error(
    parameters: dict[str, Any], status: int, message: str, path: str, api: Any
) -> None:
    reply = api.ask("GET", path, **parameters)
    assert reply.status == status
    said = json.loads(reply.body)
    assert message in (said["message"] if status == 422 else said)


def test_receivers_and_status(api: Any) -> None:
    assert api.get("/api/v2/receivers") == [{"name": "oncall"}, {"name": "quiet"}]
    status = api.get("/api/v2/status")
    assert status["cluster"] == {"peers": [], "status": "disabled"}
    assert status["uptime"] == "2023-11-14T22:13:20.000Z"
    assert status["config"] == {"original": "route:\n  receiver: oncall\n"}
    assert status["versionInfo"]["version"]
