"""The webhook's JSON, its headers and whom it trusts."""

from __future__ import annotations

import base64
import json
import re
import shutil
import ssl
import subprocess
import threading
from http.server import HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from engine.alerts.fingerprint import fingerprint
from engine.config.model import Config
from notifiers.notification import NEW_ALERTS, Notification
from notifiers.origin import Origin
from notifiers.receivers.receiver import SendError
from notifiers.receivers.webhook import WebhookConfig, WebhookReceiver, payload

if TYPE_CHECKING:
    from collections.abc import Callable


def notification(*alerts: Any, status: str = "firing", **changes: Any) -> Notification:
    labels = alerts[0].labels.to_dict()
    return Notification("the-id", "ops", status, labels, alerts, **changes)  # type: ignore[arg-type]


def test_the_body_is_alertmanagers_version_4(support: Any) -> None:
    labels = {"alertname": "TcpRetransmitSpike", "node": "n1", "task_id": "torchrun:job42"}
    annotations = {
        "summary": "Many retransmits",
        "runbook_url": "https://example.com/tcp",
        "evidence": '[{"rank":"0","pid":7,"comm":"python","src":"10.0.0.1","sport":5000,'
        '"dst":"10.0.0.2","dport":6000,"retransmits":12}]',
    }
    origin = Origin(node="n1", url="http://node:9466")
    body = payload(notification(support.firing(), origin=origin))
    assert body == {
        "receiver": "ops",
        "status": "firing",
        "alerts": [
            {
                "status": "firing",
                "labels": labels,
                "annotations": annotations,
                "startsAt": "2023-11-14T22:14:20Z",
                "endsAt": "0001-01-01T00:00:00Z",
                "generatorURL": "http://127.0.0.1:9466/graph",
                "fingerprint": fingerprint(support.firing().labels),
            }
        ],
        "notification_reason": "unknown",
        "groupLabels": labels,
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "routeLabels": {},
        "externalURL": "http://node:9466",
        "version": "4",
        "groupKey": '{}:{alertname="TcpRetransmitSpike", node="n1", task_id="torchrun:job42"}',
        "truncatedAlerts": 0,
    }


def test_external_labels_fill_in_and_never_replace_what_a_rule_said(support: Any) -> None:
    origin = Origin(external_labels={"region": "eu", "node": "another"})
    sent = origin.labelled(support.firing().labels)
    assert sent.to_dict() == {**support.firing().labels.to_dict(), "region": "eu"}


def test_without_an_external_url_the_node_is_named_by_its_own() -> None:
    config = Config(node="gpu-17", listen="127.0.0.1:9466")
    assert Origin.of(config).url == "http://gpu-17:9466"
    named = config.model_copy(update={"external_url": "https://alerts.example/gpu-17"})
    assert Origin.of(named).url == "https://alerts.example/gpu-17"


def test_a_resolved_alert_ends_when_it_resolved(support: Any) -> None:
    alert = support.resolved(support.firing())
    (shown,) = payload(notification(alert, status="resolved"))["alerts"]
    assert (shown["status"], shown["endsAt"]) == ("resolved", "2023-11-14T22:15:20Z")


def test_common_labels_are_those_of_all_alerts_and_the_rest_is_counted(support: Any) -> None:
    alerts = [support.firing(rank=str(rank)) for rank in range(3)]
    body = payload(notification(*alerts), max_alerts=2)
    assert "rank" not in body["commonLabels"]
    assert body["commonLabels"]["node"] == "n1"
    assert (len(body["alerts"]), body["truncatedAlerts"]) == (2, 1)


def test_the_reason_the_routes_labels_and_its_key_are_alertmanagers(support: Any) -> None:
    told = notification(
        support.firing(),
        reason=NEW_ALERTS,
        route_labels={"team": "net"},
        group_key_text='{}/{tier="1"}:{alertname="TcpRetransmitSpike"}',
    )
    body = payload(told)
    assert body["notification_reason"] == "new alerts added"
    assert body["routeLabels"] == {"team": "net"}
    assert body["groupKey"] == '{}/{tier="1"}:{alertname="TcpRetransmitSpike"}'


def test_what_is_cut_off_matters_least(support: Any) -> None:
    alerts = [support.firing(rank=str(rank)) for rank in range(6)]
    mixed = [support.resolved(alert) if rank % 2 else alert for rank, alert in enumerate(alerts)]
    body = payload(notification(*mixed), max_alerts=4)
    shown = [(alert["labels"]["rank"], alert["status"]) for alert in body["alerts"]]
    assert shown == [("0", "firing"), ("2", "firing"), ("4", "firing"), ("1", "resolved")]
    assert (body["status"], body["truncatedAlerts"]) == ("firing", 2)


def test_a_thousand_alerts_are_one_message(hook: Any, support: Any) -> None:
    alerts = [support.firing(rank=str(rank)) for rank in range(1000)]
    config = WebhookConfig.model_validate({"url": hook.url})
    WebhookReceiver(config).send(notification(*alerts), 30)
    ((_, body),) = hook.received
    assert len(json.loads(body)["alerts"]) == 1000


def test_a_repeat_is_marked_and_keeps_its_id(hook: Any, support: Any) -> None:
    receiver = WebhookReceiver(WebhookConfig.model_validate({"url": hook.url}))
    receiver.send(notification(support.firing()), 30)
    receiver.send(notification(support.firing(), possible_repeat=True), 30)
    first, second = (headers for headers, _ in hook.received)
    assert "X-Stallwatch-Repeat" not in first
    assert second["X-Stallwatch-Repeat"] == "possible"
    assert first["Idempotency-Key"] == second["Idempotency-Key"]


def documented_verifier() -> Callable[..., bool]:
    """The function that docs/delivery.md shows to those who receive."""
    page = (Path(__file__).parents[2] / "docs" / "delivery.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    space: dict[str, Any] = {}
    exec(code, space)
    verify: Callable[..., bool] = space["is_from_stallwatch"]
    return verify


def test_the_documented_snippet_takes_what_is_signed_and_nothing_else(
    hook: Any, support: Any
) -> None:
    own = {"url": hook.url, "hmac_secret": "s3cret"}
    WebhookReceiver(WebhookConfig.model_validate(own)).send(notification(support.firing()), 30)
    WebhookReceiver(WebhookConfig.model_validate({"url": hook.url})).send(
        notification(support.firing()), 30
    )
    (headers, body), (unsigned, _) = hook.received
    verify = documented_verifier()
    at = int(headers["X-Stallwatch-Timestamp"])
    assert verify(b"s3cret", headers, body, now=at)
    assert not verify(b"another", headers, body, now=at)
    assert not verify(b"s3cret", headers, body + b" ", now=at)
    assert not verify(b"s3cret", headers, body, now=at + 301)
    fresh = headers | {"X-Stallwatch-Timestamp": str(at + 300)}
    assert not verify(b"s3cret", fresh, body, now=at + 301)
    assert not verify(b"s3cret", unsigned, body, now=at)


def sent_with(hook: Any, support: Any, **http_config: Any) -> dict[str, str]:
    config = WebhookConfig.model_validate({"url": hook.url, "http_config": http_config})
    WebhookReceiver(config).send(notification(support.firing()), 30)
    headers: dict[str, str] = hook.received[-1][0]
    return headers


def test_the_id_and_the_credentials_are_headers(
    hook: Any, support: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Nothing in the environment may add credentials or a detour of its own.
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    headers = sent_with(hook, support)
    assert headers["Idempotency-Key"] == "the-id"
    assert headers["Content-Type"] == "application/json"
    assert "Authorization" not in headers
    assert sent_with(hook, support, bearer_token="t0ken")["Authorization"] == "Bearer t0ken"
    own = {"type": "Token", "credentials": "abc"}
    assert sent_with(hook, support, authorization=own)["Authorization"] == "Token abc"
    basic = sent_with(hook, support, basic_auth={"username": "u", "password": "pä"})
    assert basic["Authorization"] == "Basic " + base64.b64encode("u:pä".encode()).decode()


@pytest.mark.parametrize(
    ("reply", "reason", "permanent", "wait_seconds"),
    [
        ((500, {}), "server_error", False, None),
        ((503, {"Retry_After": "7"}), "server_error", False, 7.0),
        ((429, {"Retry_After": "99999999"}), "rate_limited", False, 3600.0),
        ((429, {"Retry_After": "Tue, 14 Nov 2023 22:13:20 GMT"}), "rate_limited", False, 0.0),
        ((429, {"Retry_After": "later"}), "rate_limited", False, None),
        ((404, {}), "http_404", True, None),
        ((301, {"Location": "http://127.0.0.1:1/"}), "redirect", True, None),
    ],
)
def test_every_answer_has_its_class(
    hook: Any, support: Any, reply: Any, reason: str, permanent: bool, wait_seconds: float | None
) -> None:
    hook.always = support.status(reply[0], **reply[1])
    with pytest.raises(SendError) as caught:
        sent_with(hook, support)
    error = caught.value
    assert (error.reason, error.permanent) == (reason, permanent)
    assert error.retry_after_seconds == wait_seconds


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", path, "-out", path.with_suffix(".crt")),
        ],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_a_certificate_that_does_not_verify_gets_nothing(
    certificate: Path, hook: Any, support: Any
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    plain = hook.server
    server = HTTPServer(("127.0.0.1", 0), plain.RequestHandlerClass)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    hook.url = f"https://127.0.0.1:{server.server_address[1]}/"
    try:
        with pytest.raises(SendError, match="does not verify: self-signed certificate") as caught:
            sent_with(hook, support)
        assert (caught.value.reason, caught.value.permanent) == ("tls", False)
        assert hook.received == []
        sent_with(hook, support, tls_config={"ca_file": str(certificate.with_suffix(".crt"))})
        sent_with(hook, support, tls_config={"insecure_skip_verify": True})
        assert len(hook.received) == 2
    finally:
        server.shutdown()
        server.server_close()


def test_a_certificate_file_that_goes_away_is_a_failure_to_mend(
    hook: Any, support: Any, tmp_path: Path
) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.touch()
    config = {
        "url": "https://127.0.0.1:1/",
        "http_config": {"tls_config": {"ca_file": str(bundle)}},
    }
    receiver = WebhookReceiver(WebhookConfig.model_validate(config))
    bundle.unlink()
    with pytest.raises(SendError, match="a certificate file cannot be read") as caught:
        receiver.send(notification(support.firing()), 30)
    assert (caught.value.reason, caught.value.permanent) == ("configuration", False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "Field required"),
        ({"url": "hooks.example.com/s3cret"}, "expected a URL such as https://host/path"),
        ({"url": "http://[s3cret"}, "expected a URL such as https://host/path"),
        (
            {"url": "https://h/", "http_config": {"tls_config": {"ca_file": "/nowhere/ca.pem"}}},
            "there is no file '/nowhere/ca.pem'",
        ),
        ({"url": "https://h/s3cret", "timeout": "soon"}, "not a valid duration"),
        (
            {"url": "https://h/", "http_config": {"bearer_token": "s3cret\nX-Evil: 1"}},
            "no header may have",
        ),
        ({"url": "https://h/", "hmac_secret": ""}, "is empty; leave it out"),
        ({"url": "https://h/", "max_alerts": -1}, "greater than or equal to 0"),
        ({"url": "https://h/s3cret", "colour": "red"}, "Extra inputs are not permitted"),
        (
            {
                "url": "https://h/",
                "http_config": {"bearer_token": "s3cret", "basic_auth": {"username": "u"}},
            },
            "at most one of authorization, basic_auth and bearer_token",
        ),
    ],
)
def test_a_bad_setting_is_named_and_no_secret_is_shown(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message) as caught:
        WebhookConfig.model_validate(settings)
    assert "s3cret" not in str(caught.value)


def test_no_error_shows_the_url(support: Any) -> None:
    config = WebhookConfig.model_validate({"url": "http://127.0.0.1:1/s3cret?token=s3cret"})
    with pytest.raises(SendError) as caught:
        WebhookReceiver(config).send(notification(support.firing()), 30)
    assert str(caught.value) == "Connection refused"
    assert caught.value.__suppress_context__
    assert WebhookReceiver(config).label == "http://127.0.0.1:1"
    assert "s3cret" not in repr(json.dumps(config.model_dump(mode="json")))
