"""What apprise's services take, refuse in an answer of their own, and keep as incidents."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from notifiers.origin import Origin
from notifiers.receivers.apprise_incidents import incident_key
from notifiers.receivers.apprise_limits import fitted_text, fitted_title, limit_of
from notifiers.receivers.receiver import SendError
from tests.notifiers.played import URLS, group, send


@pytest.mark.parametrize(
    ("name", "status", "body", "reason", "permanent"),
    [
        (
            "dingtalk",
            200,
            {"errcode": 310000, "errmsg": "keywords not in content"},
            "refused",
            True,
        ),
        ("dingtalk", 200, {"errcode": 130101, "errmsg": "send too fast"}, "rate_limited", False),
        ("dingtalk", 200, {"errcode": -1, "errmsg": "system busy"}, "server_error", False),
        ("wecom", 200, {"errcode": 93000, "errmsg": "invalid webhook url"}, "refused", True),
        (
            "wecom",
            200,
            {"errcode": 45009, "errmsg": "api freq out of limit"},
            "rate_limited",
            False,
        ),
        ("feishu", 200, {"code": 19021, "msg": "sign match fail"}, "refused", True),
        ("feishu", 200, {"code": 11232, "msg": "frequency limited"}, "rate_limited", False),
        ("feishu", 400, {"code": 11232, "msg": "frequency limited"}, "rate_limited", False),
        ("feishu", 400, {"code": 9499, "msg": "Bad Request"}, "http_400", True),
        ("dingtalk", 500, ["no object"], "server_error", False),
        ("slack_bot", 200, {"ok": False, "error": "channel_not_found"}, "refused", True),
        ("slack_bot", 200, {"ok": False, "error": "ratelimited"}, "rate_limited", False),
        ("slack_bot", 200, {"ok": False, "error": "internal_error"}, "server_error", False),
    ],
)
def test_a_refusal_in_the_body_is_a_refusal(
    name: str, status: int, body: Any, reason: str, permanent: bool, services: Any, support: Any
) -> None:
    def refuse(handler: Any) -> None:
        shown = json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(shown)))
        handler.end_headers()
        handler.wfile.write(shown)

    services.always = refuse
    with pytest.raises(SendError) as caught:
        send(URLS[name], group(support))
    assert (caught.value.reason, caught.value.permanent) == (reason, permanent)


CALLS = ("@everyone", "@Here", "@channel", '<at user_id="all">', "<!channel>", "<@U123>")


@pytest.mark.parametrize("name", URLS)
def test_label_values_call_nobody(name: str, services: Any, support: Any) -> None:
    evil = " ".join(CALLS)
    alert = support.firing(evil, task_id=evil, extra=evil)
    told = group(support)
    send(URLS[name], replace(told, alerts=(alert,), group_labels=alert.labels.to_dict()))
    ((_, body),) = services.received
    shown = body.decode() + json.dumps(json.loads(body), ensure_ascii=False)
    assert not [call for call in CALLS if call in shown.replace('\\"', '"')]


@pytest.mark.parametrize(
    "url",
    [
        f"twilio://AC{32 * '0'}:{32 * '1'}@15551231234/15551231235",
        "tgram://123456789:abcdefghijklmnopqrstuvwxyz0123456789/12345/",
        "discord://012345678901234567/abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmn/",
        "pover://012345678901234567890123456789@012345678901234567890123456789/",
        "mmost://localhost/0123456789abcdefghijklmnop",
        "ntfy://topic/",
        "json://localhost/",
    ],
)
@pytest.mark.parametrize("name", ["A", "A" * 300, "警报" * 100, "<&_*>" * 40])
def test_small_screens_get_what_fits_on_them(url: str, name: str, support: Any) -> None:
    from apprise import Apprise, NotifyFormat

    service: Any = Apprise.instantiate(url)
    crowd = tuple(support.firing(name, rank=str(rank)) for rank in range(100))
    for told in (replace(group(support), alerts=crowd), group(support)):
        title = fitted_title(service, told)
        body = fitted_text(service, told, title).text
        (call,) = service._build_send_calls(body=body, title=title, body_format=NotifyFormat.TEXT)
        assert len(f"{call['title']}{call['body']}".encode()) <= limit_of(service)
        assert call["title"].startswith("[FIRING:") or call["body"].startswith(("[FIRING:", "<b>"))


def longest_text(body: Any) -> int:
    """Bytes of the longest text in a JSON value."""
    if isinstance(body, str):
        return len(body.encode())
    inner = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return max(map(longest_text, inner), default=0)


@pytest.mark.parametrize("name", URLS)
@pytest.mark.parametrize("value", ["x", "_*<&>`[", "警报"])
def test_no_service_is_sent_more_than_it_takes(
    name: str, value: str, services: Any, support: Any
) -> None:
    from apprise import Apprise

    told = group(support)
    crowd = [
        replace(alert, annotations={"summary": value * 700, "description": value * 700})
        for alert in told.alerts
    ]
    send(URLS[name], replace(told, alerts=(*crowd, *crowd)))
    send(URLS[name], replace(told, alerts=(crowd[-1],)))
    limit = limit_of(Apprise.instantiate(URLS[name]))
    for _, body in services.received:
        assert longest_text(json.loads(body)) <= limit
        # As a whole, too: DingTalk and Feishu take 20,000 bytes.
        assert len(body) <= 20_000


INCIDENTS = {
    "pagerduty": (URLS["pagerduty"], "dedup_key", "event_action", ("trigger", "resolve")),
    "ilert": ("ilert://apikey/", "alertKey", "eventType", ("ALERT", "RESOLVE")),
    "squadcast": ("squadcast://0123456789abcdef/", "event_id", "status", ("trigger", "resolve")),
    "victorops": (
        "victorops://routing@apikey/", "entity_id", "message_type", ("CRITICAL", "RECOVERY")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INCIDENTS)
def test_there_is_one_incident_for_a_group_of_a_node_and_it_ends(
    name: str, services: Any, support: Any
) -> None:
    url, key, action, (opened, closed) = INCIDENTS[name]
    told = group(support)
    over = replace(told, status="resolved", alerts=tuple(map(support.resolved, told.alerts)))
    elsewhere = replace(told, origin=Origin("gpu-18", "c1"))
    for one in (told, replace(told, alerts=told.alerts[1:]), over, elsewhere):
        send(url, one)
    bodies = [json.loads(body) for _, body in services.received]
    assert [body[action] for body in bodies] == [opened, opened, closed, opened]
    assert bodies[0][key] == bodies[1][key] == bodies[2][key] != bodies[3][key]


def test_an_opsgenie_alert_is_closed_by_its_alias(services: Any, support: Any) -> None:
    told = group(support)
    over = replace(told, status="resolved", alerts=tuple(map(support.resolved, told.alerts)))
    send("opsgenie://0123-4567/", told)
    send("opsgenie://0123-4567/", over)
    opened, closing = services.received
    alias = json.loads(opened[1])["alias"]
    assert alias == incident_key(told)
    assert services.lines[1] == f"POST /v2/alerts/{alias}/close?identifierType=alias HTTP/1.1"
    assert closing[0]["Authorization"] == opened[0]["Authorization"] == "GenieKey 0123-4567"
    assert "[RESOLVED:63]" not in json.loads(closing[1])["note"]
    assert "Resolved (63):" in json.loads(closing[1])["note"]


def test_a_key_and_a_source_of_the_url_go_first(services: Any, support: Any) -> None:
    send(f"{URLS['pagerduty']}rack-7/?dedup=own", group(support))
    send(URLS["pagerduty"], group(support))
    own, ours = (json.loads(body) for _, body in services.received)
    assert (own["dedup_key"], own["payload"]["source"]) == ("own", "rack-7")
    assert (ours["dedup_key"], ours["payload"]["source"]) == (
        incident_key(group(support)),
        "gpu-17",
    )
