"""Slack in a receiver's own words, and messages that are edited or answered."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from notifiers.integrations import integrations
from notifiers.outbox import connect
from notifiers.receivers.receiver import SendError
from notifiers.receivers.slack import SlackConfig, SlackReceiver
from tests.notifiers.impostor import playing
from tests.notifiers.played import group
from tests.notifiers.slack_api import API, WEBHOOKS, Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOOK = "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
TOKEN = "xoxb-1234567890-1234567890-4ddbd1a0c1d6f9e1"
SECRETS = (TOKEN, "TIiajkdnlazkcOXrIdevi7FQ", "A1BRTD4JD")
BOT = {"token": TOKEN, "channel": "#ops"}


@pytest.fixture
def workspace(hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """The hook as Slack."""
    played = Workspace()
    hook.always = lambda handler: played.answer(handler, hook.received[-1][1])
    with playing([API, WEBHOOKS], hook.server.RequestHandlerClass, tmp_path, monkeypatch):
        yield played


def target(**settings: Any) -> Any:
    (one,) = SlackReceiver(SlackConfig.model_validate(settings)).targets()
    return one


def test_templates_make_the_message(workspace: Workspace, support: Any) -> None:
    told = replace(group(support), alerts=(support.firing(region="<!channel>"),))
    target(
        api_url=HOOK,
        channel="#ops",
        username="watch",
        icon_emoji=":fire:",
        title='{{ template "slack.default.title" . }}',
        title_link="{{ .ExternalURL }}/x?a=1&b=2",
        text="*{{ .CommonLabels.alertname }}* <https://wiki.example|wiki> "
        "{{ .CommonLabels.region }}",
        footer="{{ .Receiver }}",
        color='{{ if eq .Status "firing" }}warning{{ else }}good{{ end }}',
        fields=[{"title": "Node", "value": "{{ .CommonLabels.node }}", "short": True}],
    ).send(told, 30)
    ((where, body),) = workspace.calls
    (shown,) = body["attachments"]
    assert (where, body["channel"], body["username"]) == ("webhook", "#ops", "watch")
    assert body["icon_emoji"] == ":fire:"
    assert shown["text"] == "*TcpRetransmitSpike* <https://wiki.example|wiki> &lt;!channel&gt;"
    assert shown["title"].startswith("[FIRING:1] torchrun:job42")
    assert shown["title_link"] == "http://gpu-17:9466/x?a=1&b=2"
    assert (shown["footer"], shown["color"]) == ("oncall", "warning")
    assert shown["fields"] == [{"title": "Node", "value": "n1", "short": True}]


def test_a_link_that_a_label_turns_into_a_script_is_left_out(
    workspace: Workspace, support: Any
) -> None:
    alert = support.firing(url="javascript:alert(1)")
    told = replace(group(support), alerts=(alert,))
    target(api_url=HOOK, title_link="{{ .CommonLabels.url }}").send(told, 30)
    assert "title_link" not in workspace.calls[0][1]["attachments"][0]


def ended(support: Any, told: Any) -> Any:
    alerts = tuple(map(support.resolved, told.alerts))
    return replace(told, status="resolved", alerts=alerts)


def test_the_next_message_of_a_group_edits_the_first_one(
    workspace: Workspace, support: Any
) -> None:
    own = target(**BOT, message_strategy="update")
    told = replace(group(support), possible_repeat=False)
    other = replace(told, group_key_text="{}:{a='b'}")
    for one in (told, other, told, ended(support, told), told):
        own.send(one, 30)
    assert [method for method, _ in workspace.calls] == [
        "chat.postMessage", "chat.postMessage", "chat.update", "chat.update", "chat.postMessage"
    ]  # fmt: skip
    first, second, third = workspace.messages.values()
    assert first["attachments"][0]["title"].startswith("[RESOLVED:63]")
    assert second["attachments"][0]["title"].startswith("[FIRING:62")
    assert third["attachments"][0]["title"].startswith("[FIRING:62")
    assert set(workspace.tokens) == {f"Bearer {TOKEN}"}


def test_the_next_message_of_a_group_answers_the_first_one(
    workspace: Workspace, support: Any
) -> None:
    own = target(**BOT, message_strategy="thread", text="{{ .Status }}")
    told = group(support)
    for one in (told, told, ended(support, told), told):
        own.send(one, 30)
    threads = [body.get("thread_ts") for _, body in workspace.calls]
    root = next(ts for _, ts in workspace.messages)
    assert threads == [None, root, root, None]


def test_a_message_that_is_gone_is_posted_anew(workspace: Workspace, support: Any) -> None:
    own = target(**BOT, message_strategy="update")
    own.send(group(support), 30)
    workspace.messages.clear()
    own.send(group(support), 30)
    assert [method for method, _ in workspace.calls] == [
        "chat.postMessage", "chat.update", "chat.postMessage"
    ]  # fmt: skip


def test_after_a_restart_the_message_is_still_edited(
    workspace: Workspace, support: Any, tmp_path: Path
) -> None:
    config = support.configured(ops=[("slack", {**BOT, "message_strategy": "update"})])
    connection = connect(str(tmp_path / "state.db"))
    for _ in range(2):
        (own,) = integrations(config)
        assert own.upkeep is not None
        own.upkeep.begin(connection, 0)
        own.target.send(group(support), 30)
        own.upkeep.turn(connection, 0)
    assert [method for method, _ in workspace.calls] == ["chat.postMessage", "chat.update"]
    (own,) = integrations(config)
    assert own.upkeep is not None
    own.upkeep.begin(connection, 0)
    own.target.send(ended(support, group(support)), 30)
    own.upkeep.turn(connection, 0)
    assert connection.execute("SELECT count(*) FROM notify_slack_place").fetchone() == (0,)


@pytest.mark.parametrize(
    ("word", "reason", "permanent"),
    [
        ("invalid_auth", "refused", True),
        ("channel_not_found", "refused", True),
        ("ratelimited", "rate_limited", False),
        ("internal_error", "server_error", False),
        ("<b>xoxb-secret", "refused", True),
    ],
)
def test_a_refusal_has_its_class_and_shows_no_secret(
    workspace: Workspace, support: Any, word: str, reason: str, permanent: bool
) -> None:
    workspace.refuse = [word]
    with pytest.raises(SendError) as caught:
        target(**BOT, text="{{ .Status }}").send(group(support), 30)
    assert (caught.value.reason, caught.value.permanent) == (reason, permanent)
    assert "xoxb" not in str(caught.value)
    assert TOKEN not in repr(SlackConfig.model_validate(BOT))


@pytest.mark.parametrize("code", [429, 500, 404])
def test_a_failure_of_http_has_its_class(
    code: int, hook: Any, workspace: Workspace, support: Any
) -> None:
    hook.always = support.status(code, Retry_After="7")
    with pytest.raises(SendError) as caught:
        target(**BOT, text="{{ .Status }}").send(group(support), 30)
    assert caught.value.permanent is (code == 404)
    assert caught.value.retry_after_seconds == (7.0 if code != 404 else None)
    assert workspace.calls == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"api_url": HOOK, "message_strategy": "thread"}, "only a bot can edit or answer"),
        ({"api_url": HOOK, "update_message": True}, "only a bot can edit or answer"),
        ({**BOT, "update_message": True, "message_strategy": "thread"}, "say different things"),
        ({**BOT, "message_strategy": "fax"}, "Input should be 'new', 'update' or 'thread'"),
        ({**BOT, "text": "{{ .Status"}, "unclosed action"),
        ({**BOT, "fields": [{"title": "x", "value": "{{ end }}"}]}, "unexpected"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SlackConfig.model_validate(settings)


def test_the_built_in_text_is_escaped_too(workspace: Workspace, support: Any) -> None:
    evil = "<!channel> <@U1> <https://evil.example|click> @channel"
    told = replace(group(support), alerts=(support.firing(evil, task_id=evil),))
    target(**BOT, message_strategy="update").send(told, 30)
    shown = json.dumps(workspace.calls[0][1])
    assert not [one for one in ("<!channel>", "<@U1>", "<https://evil", "@channel") if one in shown]


def test_secrets_are_in_no_log_and_no_error(
    hook: Any, workspace: Workspace, support: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for settings in (BOT, {"api_url": HOOK}):
            own = target(**settings, text="{{ (index .Alerts 999).Labels }}")
            own.send(group(support), 30)
            hook.replies = [support.status(500)]
            with pytest.raises(SendError) as caught:
                own.send(replace(group(support), id="another"), 30)
            assert not [one for one in SECRETS if one in f"{caught.value!r} {own.label}"]
    assert "the template of 'text' failed" in caplog.text
    assert not [one for one in SECRETS if one in caplog.text]
    assert workspace.calls


def test_a_message_that_is_edited_goes_on_through_the_outbox(
    workspace: Workspace, support: Any, make_agent: Any
) -> None:
    config = support.configured(ops=[("slack", {**BOT, "message_strategy": "update"})])
    first = make_agent(config)
    alert = support.firing()
    first.fire(alert)
    first.settle("delivered", 1)
    first.delivery.stop(support.PATIENCE)
    second = make_agent(config)
    second.fire(support.resolved(alert))
    second.settle("delivered", 2)
    assert [method for method, _ in workspace.calls] == ["chat.postMessage", "chat.update"]


def test_a_template_that_fails_is_counted(
    workspace: Workspace, support: Any, make_agent: Any
) -> None:
    broken = {**BOT, "text": "{{ (index .Alerts 999).Labels }}"}
    agent = make_agent(support.configured(ops=[("slack", broken)]))
    agent.fire(support.firing())
    agent.settle("delivered", 1)
    agent.await_sample("stallwatch_notify_template_failures_total", 1, receiver="ops")
    ((_, body),) = workspace.calls
    assert "so this is the built-in message" in body["attachments"][0]["text"]
