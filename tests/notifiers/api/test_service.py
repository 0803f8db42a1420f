"""The API that a delivery brings along, over the alerts of the rules."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.alerts.alert import AlertState
from engine.config.model import Config, ReceiverConfig, RouteConfig
from engine.http.message import Request
from engine.labels import Labels
from notifiers.api.service import SilenceService
from notifiers.delivery import open_delivery
from notifiers.routing.plan import Plan
from notifiers.silences.silence import Silence
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from pathlib import Path

    from engine.http.message import Handler


def config_of(**settings: Any) -> Config:
    receivers = (ReceiverConfig(name="oncall"), ReceiverConfig(name="quiet"))
    return Config(node="n1", receivers=receivers, **settings)


def body(handler: Handler, path: str) -> Any:
    return json.loads(handler(Request("GET", path)).body)


def test_firing_alerts_show_with_the_labels_that_are_sent_and_their_silences(
    tmp_path: Path, support: Any, api: Any
) -> None:
    config = config_of(external_labels={"cluster": "a"}, route=RouteConfig(receiver="oncall"))
    service = SilenceService(
        config, Plan.of(config).root, str(tmp_path / "state.db"), lambda: support.now_ms
    )
    alert = support.firing(rank="1")
    pending = replace(support.firing(rank="2"), state=AlertState.PENDING)
    handler = service.mounted(lambda: [alert, pending])["/api/v2/"]
    matcher = {"name": "cluster", "value": "a", "isRegex": False}
    posted = json.dumps(support.postable(matchers=[matcher])).encode()
    reply = handler(
        Request("POST", "/api/v2/silences", body=posted, content_type="application/json")
    )
    identity = json.loads(reply.body)["silenceID"]

    (shown,) = body(handler, "/api/v2/alerts")
    assert shown["labels"] == {"alertname": "Slow", "cluster": "a", "rank": "1"}
    assert shown["status"]["silencedBy"] == [identity]
    assert shown["receivers"] == [{"name": "oncall"}]
    (group,) = body(handler, "/api/v2/alerts/groups")
    assert (group["labels"], group["alerts"]) == ({}, [shown])
    assert service.suppression(alert).silenced_by == (identity,)
    assert body(handler, "/api/v2/receivers") == [{"name": "oncall"}, {"name": "quiet"}]
    original = body(handler, "/api/v2/status")["config"]["original"]
    assert original == "route:\n  receiver: oncall\nreceivers:\n- name: oncall\n- name: quiet\n"
    service.close()


def test_an_alert_is_in_a_group_of_each_route_that_it_takes(tmp_path: Path, support: Any) -> None:
    below = (
        RouteConfig(receiver="quiet", matchers=support.matchers("rank=1"), continue_=True),
        RouteConfig(group_by=("alertname", "rank")),
    )
    route = RouteConfig(receiver="oncall", group_by=("alertname",), routes=below)
    alerts = [support.firing(rank="1"), support.firing(rank="2")]
    config = config_of(route=route)
    service = SilenceService(
        config, Plan.of(config).root, str(tmp_path / "state.db"), lambda: support.now_ms
    )
    handler = service.mounted(lambda: alerts)["/api/v2/"]
    told = {
        one["labels"]["rank"]: [receiver["name"] for receiver in one["receivers"]]
        for one in body(handler, "/api/v2/alerts")
    }
    assert told == {"1": ["quiet", "oncall"], "2": ["oncall"]}
    assert [
        (one["receiver"]["name"], one["labels"]) for one in body(handler, "/api/v2/alerts/groups")
    ] == [
        ("quiet", {"alertname": "Slow"}),
        ("oncall", {"alertname": "Slow", "rank": "1"}),
        ("oncall", {"alertname": "Slow", "rank": "2"}),
    ]
    service.close()


def test_without_a_route_every_receiver_is_told(tmp_path: Path, support: Any) -> None:
    service = SilenceService(
        config_of(), Plan.of(config_of()).root, str(tmp_path / "state.db"), lambda: support.now_ms
    )
    handler = service.mounted(lambda: [support.firing()])["/api/v2/"]
    (shown,) = body(handler, "/api/v2/alerts")
    assert shown["receivers"] == [{"name": "oncall"}, {"name": "quiet"}]
    service.close()


def test_the_delivery_brings_the_api_along(tmp_path: Path, support: Any) -> None:
    delivery = open_delivery(config_of(), str(tmp_path / "state.db"))
    handler = delivery.mounted(list)["/api/v2/"]
    assert body(handler, "/api/v2/alerts") == []
    assert delivery.suppression(support.firing()).silenced_by == ()
    delivery.stop(1)


def test_silences_are_counted_by_state(tmp_path: Path, support: Any) -> None:
    config = config_of()
    service = SilenceService(
        config, Plan.of(config).root, str(tmp_path / "state.db"), lambda: support.now_ms
    )
    for starts_at_ms in (0, 0, support.now_ms + 1000):
        one = Silence("", support.matchers("a=b"), starts_at_ms, support.now_ms + 2000)
        made = service.silences.add(one, support.now_ms)
    service.silences.expire(made.id, support.now_ms)
    counts = {dict(labels)["state"]: value for _, labels, _, value in service.samples()}
    assert counts == {"active": 2.0, "pending": 0.0, "expired": 1.0}
    service.close()
    assert service.samples() == []


def test_an_alert_matches_silences_by_its_external_labels_only_where_it_has_none_of_its_own(
    tmp_path: Path, support: Any
) -> None:
    config = config_of(external_labels={"cluster": "a"})
    service = SilenceService(
        config, Plan.of(config).root, str(tmp_path / "state.db"), lambda: support.now_ms
    )
    made = service.silences.add(
        Silence("", support.matchers('cluster="a"'), 0, support.now_ms + 1000), support.now_ms
    )
    own = replace(support.firing(), labels=Labels.of(alertname="Slow", cluster="b"))
    assert service.suppression(own).silenced_by == ()
    assert service.suppression(support.firing()).silenced_by == (made.id,)
    service.close()


def test_a_database_that_cannot_be_opened_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StallwatchError, match="cannot be used as outbox or for silences"):
        SilenceService(config_of(), Plan.of(config_of()).root, str(tmp_path), lambda: 0)
