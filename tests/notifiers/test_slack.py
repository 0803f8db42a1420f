"""Slack through apprise, which knows one host: a TLS server here plays it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from notifiers.notification import Notification
from notifiers.receivers.receiver import SendError
from notifiers.receivers.slack import SlackConfig, SlackReceiver
from tests.notifiers.impostor import playing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WEBHOOK = "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"


@pytest.fixture
def slack(hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The hook, as hooks.slack.com with a certificate that verifies."""
    with playing(["hooks.slack.com"], hook.server.RequestHandlerClass, tmp_path, monkeypatch):
        yield hook


def send(alert: Any, **settings: Any) -> None:
    (target,) = SlackReceiver(SlackConfig.model_validate(settings)).targets()
    target.send(Notification("the-id", "ops", "firing", alert.labels.to_dict(), (alert,)), 30)


def test_a_webhook_gets_the_message(slack: Any, support: Any) -> None:
    slack.always = with_body(200, b"ok")
    send(support.firing(), api_url=WEBHOOK, channel="#ops")
    ((headers, body),) = slack.received
    shown = json.loads(body)
    assert headers["Host"] == "hooks.slack.com"
    assert shown["channel"] == "#ops"
    (attachment,) = shown["attachments"]
    assert attachment["title"] == "[FIRING] TcpRetransmitSpike torchrun:job42"
    assert "10.0.0.1:5000 → 10.0.0.2:6000" in attachment["text"]


def test_label_values_call_nobody_and_link_nowhere(slack: Any, support: Any) -> None:
    slack.always = with_body(200, b"ok")
    evil = "<!channel> <@U123> <https://evil.example|click> *bold*"
    send(support.firing(evil, task_id=evil), api_url=WEBHOOK)
    text = slack.received[0][1].decode()
    assert "<!channel>" not in text
    assert "<@U123>" not in text
    assert "<https://evil.example" not in text


@pytest.mark.parametrize(
    ("code", "reason", "permanent"),
    [(404, "http_404", True), (429, "rate_limited", False), (503, "server_error", False)],
)
def test_slacks_refusals_have_their_class_and_show_no_token(
    slack: Any, support: Any, code: int, reason: str, permanent: bool
) -> None:
    slack.always = support.status(code)
    with pytest.raises(SendError) as caught:
        send(support.firing(), api_url=WEBHOOK)
    assert (caught.value.reason, caught.value.permanent) == (reason, permanent)
    assert "TIiajkdnlazkcOXrIdevi7FQ" not in str(caught.value)


def with_body(code: int, body: bytes) -> Any:
    def reply(handler: Any) -> None:
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return reply


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "give either api_url"),
        ({"api_url": WEBHOOK, "token": "xoxb-1"}, "give either api_url"),
        ({"token": "xoxb-1234567890-s3cret"}, "a token needs a channel"),
        ({"api_url": "https://chat.example.com/hooks/s3cret"}, "api_url or channel is not as"),
        ({"api_url": WEBHOOK, "channel": "#a b/c"}, "expected one channel such as #alerts"),
        ({"token": "s3cret", "channel": "#ops"}, "token or channel is not as Slack makes them"),
    ],
)
def test_a_bad_setting_is_named_and_no_secret_is_shown(
    settings: dict[str, str], message: str
) -> None:
    with pytest.raises(ValidationError, match=message) as caught:
        SlackConfig.model_validate(settings)
    assert "s3cret" not in str(caught.value)


def test_a_bots_token_and_channel_become_apprises_url() -> None:
    own = SlackConfig.model_validate({"token": "xoxb-1234567890-1234567890-abc", "channel": "#ops"})
    assert own.apprise_url() == "slack://xoxb-1234567890-1234567890-abc/%23ops/"
