"""The dead man's switch over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from notifiers.notification import Notification
from notifiers.origin import Origin
from notifiers.receivers.heartbeat import HeartbeatConfig, HeartbeatReceiver
from notifiers.receivers.receiver import SendError

ORIGIN = Origin(node="gpu-17", cluster="c1")


def receiver(**settings: Any) -> HeartbeatReceiver:
    return HeartbeatReceiver(HeartbeatConfig.model_validate(settings))


def test_a_beat_says_who_lives_and_when_it_last_evaluated(hook: Any) -> None:
    receiver(url=hook.url).beat(ORIGIN, 1_700_000_000_000, 30)
    ((_, body),) = hook.received
    shown = {"node": "gpu-17", "cluster": "c1", "evaluatedAt": "2023-11-14T22:13:20Z"}
    assert json.loads(body) == shown


def test_a_get_has_no_body(hook: Any) -> None:
    receiver(url=hook.url, method="GET").beat(ORIGIN, 1_700_000_000_000, 30)
    assert hook.lines == ["GET /hook HTTP/1.1"]
    ((headers, body),) = hook.received
    assert "Content-Type" not in headers
    assert body == b""


def test_alerts_are_nothing_to_it_and_a_test_is_a_beat(hook: Any, support: Any) -> None:
    own, alert = receiver(url=hook.url), support.firing()
    told = Notification("i", "ops", "firing", {}, (alert,))
    own.send(told, 30)
    assert hook.received == []
    own.send(Notification("i", "ops", "firing", {}, (alert,), test=True, origin=ORIGIN), 30)
    assert len(hook.received) == 1


def test_a_monitor_that_refuses_is_an_error_without_its_url(hook: Any, support: Any) -> None:
    hook.always = support.status(404)
    own = receiver(url=f"{hook.url}/s3cret")
    with pytest.raises(SendError) as caught:
        own.beat(ORIGIN, 0, 30)
    assert (caught.value.reason, caught.value.permanent) == ("http_404", True)
    assert "s3cret" not in str(caught.value) + own.label


def test_the_interval_is_a_minute_unless_it_is_given() -> None:
    assert receiver(url="https://h/").interval_ms == 60_000
    assert receiver(url="https://h/", interval="5m").interval_ms == 300_000
    with pytest.raises(ValidationError, match="longer than 0"):
        receiver(url="https://h/", interval="0s")
    with pytest.raises(ValidationError, match="'GET' or 'POST'"):
        receiver(url="https://h/", method="PUT")
