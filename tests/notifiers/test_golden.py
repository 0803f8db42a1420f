"""What each service is sent for one and the same group, held against files in `golden/`.

With STALLWATCH_WRITE_GOLDEN=1 the files are written anew: look at what changed before you commit.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import threading
from dataclasses import replace
from http.server import HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from notifiers.messages.hypertext import html
from notifiers.messages.plain import text
from notifiers.notification import NEW_ALERTS, Notification
from notifiers.origin import Origin
from notifiers.receivers.apprise import AppriseConfig, AppriseReceiver
from notifiers.receivers.apprise_incidents import incident_key
from notifiers.receivers.apprise_limits import limit_of
from notifiers.receivers.receiver import SendError
from notifiers.receivers.webhook import payload

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).parent / "golden"
SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/"
URLS = {
    "slack": f"{SLACK}?timestamp=no",
    "slack_blocks": f"{SLACK}?blocks=yes",
    "teams": "workflows://teams.example.com/643e69f83c8944438d68119179a10a64/KODuebWbDGYFr0z0eu/",
    "pagerduty": "pagerduty://0123456789abcdef0123456789abcdef@u+apikey/",
    "dingtalk": "dingtalk://0123456789abcdef/",
    "wecom": "wecombot://693a91f6-7xxx-4bc4-97a0-0ec2sifa5aaa/",
    "feishu": "feishu://01234567-89ab-cdef-0123-456789abcdef/",
}
HOSTS = (
    "hooks.slack.com",
    "teams.example.com",
    "events.pagerduty.com",
    "oapi.dingtalk.com",
    "qyapi.weixin.qq.com",
    "open.feishu.cn",
    "api.ilert.com",
    "api.squadcast.com",
    "alert.victorops.com",
    "api.opsgenie.com",
)


def group(support: Any) -> Notification:
    """A job that suffers, why, what is over, and a crowd that no chat has room for."""
    spike = replace(
        support.firing(severity="critical", tier="1", region="上海"),
        annotations={
            "summary": 'Many retransmits <b>&amp; "quotes"</b> 重传过多',
            "description": "The path to one peer loses packets.\nLook at the switch.",
            "runbook_url": "https://example.com/tcp",
        },
    )
    suffering = replace(
        support.firing("TaskStalled", severity="critical", tier="2", region="上海"),
        annotations={"summary": "Ranks wait for each other", "owner": "net team"},
        value=0.61,
        evidence=(*spike.evidence, {"rank": "0", "comm_wait_ratio": 0.61}),
    )
    idle = support.firing("GpuIdle", severity="info", region="上海")
    slow = [
        replace(
            support.firing("RankSlow", severity="warning", rank=str(rank), region="上海"),
            annotations={"summary": f"Rank {rank} is slow"},
        )
        for rank in range(60)
    ]
    labels = {"task_id": "torchrun:job42"}
    alerts = (support.resolved(idle), *slow, spike, suffering)
    return Notification(
        "0123456789abcdef0123456789abcdef",
        "oncall",
        "firing",
        labels,
        alerts,
        origin=Origin("gpu-17", "c1", "http://gpu-17:9466"),
        group_key_text='{}/{tier=~".+"}:{task_id="torchrun:job42"}',
        route_labels={"team": "net"},
        reason=NEW_ALERTS,
        possible_repeat=True,
    )


def held_against(name: str, shown: str) -> None:
    path = GOLDEN / name
    if os.environ.get("STALLWATCH_WRITE_GOLDEN"):
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")


def test_plain_text(support: Any) -> None:
    held_against("text.txt", text(group(support)) + "\n")


def test_the_html_of_a_mail(support: Any) -> None:
    held_against("mail.html", html(group(support)) + "\n")


def test_the_webhook(support: Any) -> None:
    body = payload(group(support), max_alerts=3)
    held_against("webhook.json", json.dumps(body, indent=2, ensure_ascii=False) + "\n")


@pytest.fixture
def services(hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The hook as every service of HOSTS, with a certificate that verifies."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "services.crt"
    names = ",".join(f"DNS:{host}" for host in HOSTS)
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=services", "-addext", f"subjectAltName={names}"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = HTTPServer(("127.0.0.1", 0), hook.server.RequestHandlerClass)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    import urllib3.util.connection as sockets

    connect = sockets.create_connection

    def redirected(address: tuple[str, int], *args: Any, **kwargs: Any) -> Any:
        assert address[0] in HOSTS
        return connect(("127.0.0.1", server.server_address[1]), *args, **kwargs)

    monkeypatch.setattr(sockets, "create_connection", redirected)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    hook.always = taken
    yield hook
    server.shutdown()
    server.server_close()


def taken(handler: Any) -> None:
    slack = handler.headers["Host"] == "hooks.slack.com"
    body = b"ok" if slack else b'{"code": 0, "errcode": 0, "requestId": "r"}'
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def send(url: str, notification: Notification) -> None:
    (target,) = AppriseReceiver(AppriseConfig.model_validate({"url": url})).targets()
    target.send(notification, 30)


@pytest.mark.parametrize("name", URLS)
def test_what_apprise_posts(name: str, services: Any, support: Any) -> None:
    apprise = pytest.importorskip("apprise")
    if not apprise.__version__.startswith("2."):
        pytest.skip("the files show what apprise 2 posts")
    send(URLS[name], group(support))
    ((_, body),) = services.received
    shown = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    held_against(f"{name}.json", shown + "\n")


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
