"""Pictures of the last hour: what is drawn, where they go, and that no message waits for one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from pydantic import ValidationError

from engine.alerts.fingerprint import fingerprint
from notifiers.pictures.hour import History, Hour, measured
from notifiers.pictures.picture import Pictures, described, drawn
from notifiers.receivers import apprise_picture
from notifiers.receivers.apprise import AppriseConfig, AppriseReceiver
from notifiers.receivers.email import EmailConfig, EmailReceiver
from notifiers.receivers.receiver import SendError
from tests.notifiers.mailbox import settings
from tests.notifiers.played import URLS, group

if TYPE_CHECKING:
    from pathlib import Path

    from notifiers.notification import Notification
    from tests.notifiers.mailbox import Mailbox

pytest.importorskip(
    "matplotlib", reason="pictures are optional: pip install 'stallwatch[pictures]'"
)
EXPRESSION = 'sum by (task_id) (rate(x_total{a="b"}[5m])) > 0.5'
MATRIX = {
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [
            {"metric": {"task_id": "another"}, "values": [[1_700_000_000, "9"]]},
            {
                "metric": {"task_id": "torchrun:job42"},
                "values": [
                    [1_700_000_000, "0.25"],
                    [1_700_000_015, "NaN"],
                    [1_700_000_030, "0.75"],
                ],
            },
        ],
    },
}


def say(body: bytes) -> Any:
    def reply(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return reply


@pytest.fixture
def api(make_hook: Any) -> Any:
    """The agent's own API."""
    hook = make_hook()
    hook.always = say(json.dumps(MATRIX).encode())
    return hook


def told(support: Any, expression: str = EXPRESSION) -> Notification:
    link = f"http://node:9466/api/v1/query?query={quote(expression)}"
    return replace(group(support), alerts=(replace(support.firing(), generator_url=link),))


def pictures(api: Any, tmp_path: Path) -> Pictures:
    return Pictures(History(api.url.removesuffix("/hook")), tmp_path)


@pytest.mark.parametrize(
    ("expression", "shown", "threshold"),
    [
        (EXPRESSION, 'sum by (task_id) (rate(x_total{a="b"}[5m]))', 0.5),
        ("(a > 3)", "a", 3.0),
        ("2 <= bool a", "a", 2.0),
        ("a > b", "a > b", None),
        ("a > 1 and b < 2", "a > 1 and b < 2", None),
        ("absent(a)", "absent(a)", None),
        ("a + 1", "a + 1", None),
    ],
)
def test_what_is_drawn_is_what_the_threshold_holds(
    expression: str, shown: str, threshold: float | None
) -> None:
    found = measured(expression)
    assert (found.expression, found.threshold) == (shown, threshold)


def test_the_agent_is_asked_for_the_alerts_last_hour(
    api: Any, support: Any, tmp_path: Path
) -> None:
    (alert,) = told(support).alerts
    hour = pictures(api, tmp_path)._history.hour(alert, 1_700_003_600_000, 5)
    assert hour is not None
    asked = parse_qs(urlsplit(api.lines[0].split()[1]).query)
    assert asked["query"] == ['sum by (task_id) (rate(x_total{a="b"}[5m]))']
    assert (asked["start"], asked["end"]) == (["1700000000.0"], ["1700003600.0"])
    ((name, points),) = hour.series
    assert name == "task_id=torchrun:job42"
    assert [value for _, value in points][::2] == [0.25, 0.75]
    assert hour.threshold == 0.5


def test_a_picture_is_a_png_whatever_it_is_called(tmp_path: Path) -> None:
    points = tuple((1_700_000_000.0 + 15 * step, float(step % 7)) for step in range(240))
    evil = "$\\frac{a}{0}$ <svg> 警报 _x"
    hour = Hour(evil, 1_700_003_600_000, 3.0, ((evil, points), ("_empty", ())))
    assert drawn(described(hour), tmp_path).startswith(b"\x89PNG\r\n")


PEERS = "straggler_slowdown by (task_id) (step_time_seconds) > 1.2"
PANEL = {
    "expr": "step_time_seconds",
    "said": "straggler_slowdown is 2",
    "start": 1_700_000_000,
    "end": 1_700_003_600,
    "threshold": None,
    "expected": [None, 1.2],
    "lines": [
        {"labels": {"rank": "3"}, "is_own": True, "points": [[1_700_000_000, 2.0]]},
        {"labels": {"rank": "$1"}, "is_own": False, "points": [[1_700_000_000, "NaN"]]},
    ],
}
EXPLAINED = {
    "alertname": "Straggler",
    "labels": {"alertname": "Straggler", "rank": "3"},
    "active_at": 1_700_000_060,
    "fired_at": None,
    "panels": [PANEL],
}


def test_a_statistic_of_ours_is_drawn_as_it_is_explained(
    api: Any, support: Any, tmp_path: Path
) -> None:
    api.always = say(json.dumps({"status": "success", "data": EXPLAINED}).encode())
    notification = told(support, PEERS)
    own = pictures(api, tmp_path)
    picture = own.of_notification(notification)
    assert picture is not None
    assert picture.startswith(b"\x89PNG")
    (line,) = api.lines
    (alert,) = notification.alerts
    place = urlsplit(line.split()[1])
    assert place.path == "/api/v1/explain"
    assert parse_qs(place.query)["fingerprint"] == [fingerprint(alert.labels)]


def test_an_alert_that_the_agent_does_not_know_has_the_picture_of_its_hour(
    api: Any, support: Any, tmp_path: Path
) -> None:
    api.replies = [support.status(404)]
    assert pictures(api, tmp_path).of_notification(told(support, PEERS)) is not None
    asked = [urlsplit(line.split()[1]).path for line in api.lines]
    assert asked == ["/api/v1/explain", "/api/v1/query_range"]


def test_an_alert_that_is_over_is_not_explained(api: Any, support: Any, tmp_path: Path) -> None:
    notification = told(support, PEERS)
    (alert,) = notification.alerts
    over = replace(notification, alerts=(replace(alert, resolved_at_ms=1_700_000_090_000),))
    pictures(api, tmp_path).of_notification(over)
    assert [urlsplit(line.split()[1]).path for line in api.lines] == ["/api/v1/query_range"]


def test_a_mail_holds_its_picture(
    mailbox: Mailbox, serve_mail: Any, api: Any, support: Any, tmp_path: Path
) -> None:
    target = mail(serve_mail(), api, tmp_path)
    target.send(told(support), 30)
    (message,) = mailbox.messages()
    (image,) = [one for one in message.walk() if one.get_content_type() == "image/png"]
    assert image.get_payload(decode=True).startswith(b"\x89PNG")
    shown = message.get_body(("html",)).get_content()
    assert f"cid:{image['Content-ID'].strip('<>')}" in shown
    assert target.pictures.failed == 0


def test_a_chat_gets_the_picture_behind_the_message(
    services: Any, api: Any, support: Any, tmp_path: Path
) -> None:
    target = chat("discord", api, tmp_path)
    target.send(told(support), 30)
    first, second = services.received
    assert "TcpRetransmitSpike" in first[1].decode()
    assert b"\x89PNG" in second[1]
    assert b"TcpRetransmitSpike" not in second[1]


class Known:
    """A history that is always the same, and counts who asks for it."""

    asked = 0

    def explained(self, alert: Any, timeout_seconds: float) -> None:
        """It knows of no statistics."""

    def hour(self, alert: Any, end_ms: int, timeout_seconds: float) -> Hour:
        assert alert.generator_url
        assert timeout_seconds > 0
        self.asked += 1
        return Hour("x", end_ms, 1.0, (("x", ((end_ms / 1000, 1.0),)),))


def chat(name: str, api: Any, tmp_path: Path) -> Any:
    config = AppriseConfig.model_validate({"url": URLS[name], "picture": True})
    target: Any = AppriseReceiver(config).targets()[0]
    target.pictures = pictures(api, tmp_path)
    # With the services in its place, no other host can be reached.
    target.pictures._history = Known()
    return target


def test_a_picture_that_is_not_taken_repeats_no_message(
    services: Any, api: Any, support: Any, tmp_path: Path
) -> None:
    from tests.notifiers.played import taken

    services.replies = [taken, support.status(500)]
    target = chat("discord", api, tmp_path)
    target.send(told(support), 30)
    assert len(services.received) == 2
    assert target.pictures.failed == 1


def test_no_picture_is_drawn_for_a_message_that_was_not_taken(
    services: Any, api: Any, support: Any, tmp_path: Path
) -> None:
    services.replies = [support.status(500)]
    target = chat("discord", api, tmp_path)
    with pytest.raises(SendError):
        target.send(told(support), 30)
    assert target.pictures._history.asked == 0


def test_a_service_without_pictures_is_sent_none(
    services: Any, api: Any, support: Any, tmp_path: Path
) -> None:
    target = chat("teams", api, tmp_path)
    target.send(told(support), 30)
    assert len(services.received) == 1
    assert target.pictures._history.asked == 0


@pytest.mark.parametrize(
    "answer",
    [b"", b"no json", b"[]", b'{"data": {}}', b'{"data": {"resultType": "matrix", "result": [1]}}'],
)
def test_an_agent_that_answers_nonsense_costs_nobody_the_message(
    answer: bytes, mailbox: Mailbox, serve_mail: Any, api: Any, support: Any, tmp_path: Path
) -> None:
    api.always = say(answer)
    target = mail(serve_mail(), api, tmp_path)
    target.send(told(support), 30)
    assert target.pictures.failed == 1
    assert mailbox.messages()[0]["Subject"].startswith("[FIRING]")


def mail(where: str, api: Any, tmp_path: Path) -> Any:
    config = EmailConfig.model_validate(settings(where) | {"picture": True})
    target: Any = EmailReceiver(config).targets()[0]
    assert target.wants_picture
    target.pictures = pictures(api, tmp_path)
    return target


def test_a_drawing_that_hangs_or_fails_costs_nobody_the_message(
    mailbox: Mailbox,
    serve_mail: Any,
    api: Any,
    support: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = mail(serve_mail(), api, tmp_path)
    for program, seconds in (
        ("sleep 60", 0.2),
        ("echo broken >&2; exit 3", 30.0),
        ("echo x", 30.0),
    ):
        own = tmp_path / "python"
        own.write_text(f"#!/bin/sh\n{program}\n")
        own.chmod(0o755)
        monkeypatch.setattr("notifiers.pictures.picture.sys.executable", str(own))
        monkeypatch.setattr("notifiers.pictures.picture.DRAW_SECONDS", seconds)
        target.send(told(support), 30)
    assert target.pictures.failed == 3
    assert len(mailbox.messages()) == 3


@pytest.mark.parametrize("expression", ["", "sum(", "{"])
def test_an_alert_without_an_expression_has_no_picture(
    expression: str, api: Any, support: Any, tmp_path: Path
) -> None:
    own = pictures(api, tmp_path)
    assert own.of_notification(told(support, expression)) is None
    assert api.received == []


def test_who_wants_pictures_needs_what_draws_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apprise_picture, "find_spec", lambda _: None)
    AppriseConfig.model_validate({"url": URLS["discord"]})
    with pytest.raises(ValidationError, match="a picture needs matplotlib"):
        AppriseConfig.model_validate({"url": URLS["discord"], "picture": True})


def test_pictures_are_drawn_from_the_address_that_the_agent_listens_on(support: Any) -> None:
    from notifiers.integrations import integrations

    wanted = {"url": URLS["discord"], "picture": True}
    config = support.configured(ops=[("apprise", wanted), ("apprise", {"url": URLS["teams"]})])
    first, second = integrations(config)
    assert first.pictures is not None
    assert second.pictures is None
