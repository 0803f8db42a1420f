"""An Alertmanager as receiver: what it is told, in what portions, and how a real one takes it."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import requests
from pydantic import ValidationError

from engine.labels import Labels
from notifiers.notification import Notification
from notifiers.receivers import alertmanager
from notifiers.receivers.alertmanager import AlertmanagerConfig, AlertmanagerReceiver
from notifiers.receivers.receiver import SendError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW_MS = 1_700_000_090_000


def receiver(url: str, **settings: Any) -> AlertmanagerReceiver:
    return AlertmanagerReceiver(AlertmanagerConfig.model_validate({"url": url, **settings}))


def told(hook: Any) -> list[dict[str, Any]]:
    return [alert for _, body in hook.received for alert in json.loads(body)]


def test_an_alert_is_told_as_prometheus_tells_it(hook: Any, support: Any) -> None:
    alert = support.firing()
    receiver(hook.url).tell([alert], NOW_MS, 10_000, 30)
    assert hook.lines == ["POST /hook/api/v2/alerts HTTP/1.1"]
    assert told(hook) == [
        {
            "labels": alert.labels.to_dict(),
            "annotations": {
                "summary": "Many retransmits",
                "runbook_url": "https://example.com/tcp",
                "evidence": '[{"rank":"0","pid":7,"comm":"python","src":"10.0.0.1","sport":5000,'
                '"dst":"10.0.0.2","dport":6000,"retransmits":12}]',
            },
            "startsAt": "2023-11-14T22:14:20Z",
            "endsAt": "2023-11-14T22:18:50Z",  # four minutes from now
            "generatorURL": "http://127.0.0.1:9466/graph",
        }
    ]


def test_a_rarely_evaluated_rules_alert_lives_longer(hook: Any, support: Any) -> None:
    receiver(hook.url).tell([support.firing()], NOW_MS, 300_000, 30)
    assert told(hook)[0]["endsAt"] == "2023-11-14T22:34:50Z"


def test_a_resolved_alert_ends_when_it_ended_and_an_absent_url_is_left_out(
    hook: Any, support: Any
) -> None:
    alert = support.resolved(support.firing())
    labels = alert.labels.to_dict()
    receiver(hook.url).send(Notification("the-id", "ops", "resolved", labels, (alert,)), 30)
    (shown,) = told(hook)
    assert shown["endsAt"] == "2023-11-14T22:15:20Z"
    assert "generatorURL" not in shown


def test_many_alerts_go_in_bounded_portions(hook: Any, support: Any) -> None:
    alerts = [support.firing(rank=str(rank)) for rank in range(1000)]
    receiver(hook.url).tell(alerts, NOW_MS, 10_000, 30)
    assert [len(json.loads(body)) for _, body in hook.received] == [256, 256, 256, 232]
    assert [alert["labels"]["rank"] for alert in told(hook)] == [str(rank) for rank in range(1000)]


def test_long_alerts_go_in_smaller_portions(hook: Any, support: Any) -> None:
    long = replace(support.firing(), annotations={"summary": "x" * 400_000})
    huge = replace(support.firing("Huge"), annotations={"summary": "x" * 1_500_000})
    receiver(hook.url).tell([long, long, long, huge], NOW_MS, 10_000, 30)
    assert [len(json.loads(body)) for _, body in hook.received] == [2, 1, 1]


def test_what_was_not_taken_is_told_again_with_the_rest(
    hook: Any, support: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alertmanager, "BATCH_ALERTS", 2)
    alerts = [support.firing(rank=str(rank)) for rank in range(4)]
    hook.replies = [support.status(200), support.status(503)]
    own = receiver(hook.url)
    with pytest.raises(SendError) as caught:
        own.tell(alerts, NOW_MS, 10_000, 30)
    assert (caught.value.reason, caught.value.permanent) == ("server_error", False)
    own.tell(alerts, NOW_MS, 10_000, 30)
    ranks = [alert["labels"]["rank"] for alert in told(hook)]
    assert ranks == ["0", "1", "2", "3", "0", "1", "2", "3"]


def test_what_is_refused_for_good_keeps_nothing_else_from_being_told(
    hook: Any, support: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alertmanager, "BATCH_ALERTS", 2)
    hook.replies = [support.status(400)]
    alerts = [support.firing(rank=str(rank)) for rank in range(4)]
    with pytest.raises(SendError) as caught:
        receiver(hook.url).tell(alerts, NOW_MS, 10_000, 30)
    assert (caught.value.reason, caught.value.permanent) == ("http_400", True)
    assert [alert["labels"]["rank"] for alert in told(hook)] == ["0", "1", "2", "3"]


def test_credentials_are_those_of_http_config(hook: Any, support: Any) -> None:
    own = {"basic_auth": {"username": "u", "password": "p"}}
    receiver(hook.url, http_config=own).tell([support.firing()], NOW_MS, 10_000, 30)
    headers = hook.received[0][0]
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"u:p").decode()


@pytest.mark.parametrize(
    "url", ["am:9093/s3cret", "http://am:9093/s3cret/api/v2/alerts", "http://am:9093/?a=s3cret"]
)
def test_a_bad_url_is_named_and_not_shown(url: str) -> None:
    with pytest.raises(ValidationError, match="expected") as caught:
        AlertmanagerConfig.model_validate({"url": url})
    assert "s3cret" not in str(caught.value)


CONFIGURATION = """
route: {receiver: hook, group_by: [alertname], group_wait: 1s, group_interval: 1s}
receivers:
  - name: hook
    webhook_configs: [{url: URL}]
"""


class RealAlertmanager:
    """Alertmanager itself, under a path prefix, telling the hook; `start` may come late."""

    def __init__(self, program: str, folder: Path, hook_url: str) -> None:
        configuration = folder / "alertmanager.yml"
        configuration.write_text(CONFIGURATION.replace("URL", hook_url))
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/monitoring"
        self._command = [
            program,
            f"--config.file={configuration}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--web.route-prefix=/monitoring",
            "--cluster.listen-address=",
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        nowhere = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdout=nowhere, stderr=nowhere)
        _await_ready(self._process, self.url)

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


@pytest.fixture
def late_alertmanager(hook: Any, tmp_path: Path) -> Iterator[RealAlertmanager]:
    """Not started yet."""
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        pytest.skip("Alertmanager is not installed (Debian: prometheus-alertmanager)")
    made = RealAlertmanager(program, tmp_path, hook.url)
    yield made
    made.close()


@pytest.fixture
def real_alertmanager(late_alertmanager: RealAlertmanager) -> str:
    """Where it is."""
    late_alertmanager.start()
    return late_alertmanager.url


def _await_ready(process: subprocess.Popen[bytes], url: str) -> None:
    for _ in range(600):
        assert process.poll() is None, "Alertmanager has ended"
        try:
            if requests.get(f"{url}/-/ready", timeout=10).ok:
                return
        except requests.ConnectionError:
            pass
        time.sleep(0.1)
    raise AssertionError("Alertmanager does not get ready")


def test_a_real_alertmanager_takes_alerts_and_their_ends(
    hook: Any, support: Any, real_alertmanager: str
) -> None:
    now_ms = time.time_ns() // 1_000_000
    odd = {"extra": 'a "quoted"\nline ü'}
    alert = replace(
        support.firing(**odd), active_at_ms=now_ms - 90_000, fired_at_ms=now_ms - 60_000
    )
    over = replace(support.resolved(alert), resolved_at_ms=now_ms)
    own = receiver(real_alertmanager + "/")
    own.tell([alert], now_ms, 10_000, 30)
    own.tell([alert], now_ms, 10_000, 30)
    (shown,) = requests.get(f"{real_alertmanager}/api/v2/alerts", timeout=30).json()
    assert shown["labels"] == alert.labels.to_dict()
    assert shown["status"]["state"] in {"active", "unprocessed"}
    assert json.loads(shown["annotations"]["evidence"]) == list(alert.evidence)
    assert shown["generatorURL"] == alert.generator_url
    hook.wait_for(1)
    own.tell([over], now_ms, 10_000, 30)
    received = hook.wait_for(2)
    statuses = [json.loads(body)["status"] for _, body in received]
    assert statuses == ["firing", "resolved"]


def test_a_real_alertmanager_refuses_for_good_what_it_cannot_take(
    support: Any, real_alertmanager: str
) -> None:
    nameless = replace(support.firing(), labels=Labels())
    now_ms = time.time_ns() // 1_000_000
    with pytest.raises(SendError) as caught:
        receiver(real_alertmanager).tell([nameless, support.firing()], now_ms, 10_000, 30)
    assert (caught.value.reason, caught.value.permanent) == ("http_400", True)
    # The other one of the same request is taken all the same.
    (shown,) = requests.get(f"{real_alertmanager}/api/v2/alerts", timeout=30).json()
    assert shown["labels"]["alertname"] == "TcpRetransmitSpike"


def test_a_real_alertmanager_that_was_away_hears_what_fires_and_of_its_end(
    hook: Any, make_hook: Any, make_agent: Any, support: Any, late_alertmanager: RealAlertmanager
) -> None:
    other = make_hook()
    agent = make_agent(
        support.configured(
            bad=[("alertmanager", {"url": late_alertmanager.url})],
            good=[("webhook", {"url": other.url})],
        )
    )
    alert = support.firing()
    agent.fire(alert)
    other.wait_for(1)
    while not agent.sample("stallwatch_notify_retries_total", receiver="bad", reason="connection"):
        agent.settle("pending", 1)
    late_alertmanager.start()
    hook.wait_for(1)
    agent.fire(replace(support.resolved(alert), resolved_at_ms=support.unix_ms()))
    received = hook.wait_for(2)
    agent.settle("delivered", 4)
    assert [json.loads(body)["status"] for _, body in received[:2]] == ["firing", "resolved"]
    assert agent.rows("failed") == []
