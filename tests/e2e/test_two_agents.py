"""Two agents that see one task, behind one real Alertmanager: its receiver hears of it once."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import requests

from bench.delivery.sides import find_alertmanager
from bench.peers.packages import Failure
from engine.alerts.fingerprint import fingerprint
from tests.e2e.agent import STALLWATCH, Webhook, free_port, wait_until
from tests.notifiers.agent.conftest import PROBES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TASK = {"alertname": "TaskStalled", "task_id": "slurm:7.0"}
# The series has the node that it was seen on.
RULES = """
groups:
- name: g
  interval: 1s
  rules:
  - alert: TaskStalled
    expr: max by (node) (stallwatch_build_info)
    labels: {task_id: "slurm:7.0"}
"""


@pytest.fixture
def hook() -> Iterator[Webhook]:
    webhook = Webhook()
    yield webhook
    webhook.close()


@pytest.fixture
def alertmanager(tmp_path: Path, hook: Webhook) -> Iterator[str]:
    try:
        program = find_alertmanager()
    except Failure as failure:
        pytest.skip(str(failure))
    written = tmp_path / "alertmanager.yml"
    settings = {
        "route": {"receiver": "all", "group_wait": "1s", "group_interval": "2s"},
        "receivers": [{"name": "all", "webhook_configs": [{"url": hook.url}]}],
    }
    written.write_text(json.dumps(settings))
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        str(program),
        f"--config.file={written}",
        f"--storage.path={tmp_path / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--cluster.listen-address=",
    ]
    log = tmp_path / "alertmanager.log"
    with log.open("w") as errors, subprocess.Popen(command, stderr=errors) as process:
        try:
            wait_until(lambda: _answers(url), f"Alertmanager\n{log.read_text()}")
            yield url
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/-/ready", timeout=10).ok
    except requests.ConnectionError:
        return False


class Agent:
    """An agent of a node, as a process."""

    def __init__(self, folder: Path, node: str, alertmanager: str) -> None:
        home = folder / node
        home.mkdir()
        self.rules = home / "rules.yaml"
        self.rules.write_text(RULES)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        settings: dict[str, Any] = {
            "listen": f"127.0.0.1:{port}",
            "state_dir": str(home / "state"),
            "node": node,
            "flush_interval": "1s",
            "rule_files": ["rules.yaml"],
            "external_labels": {"replica": node},
            "alert_relabel_configs": [{"action": "labeldrop", "regex": "node|replica"}],
            "receivers": [{"name": "am", "alertmanager_configs": [{"url": alertmanager}]}],
            "probes": {name: {"enabled": False} for name in PROBES},
        }
        (home / "stallwatch.yaml").write_text(json.dumps(settings))
        command = [str(STALLWATCH), "run", "--config", str(home / "stallwatch.yaml")]
        with (home / "printed").open("w") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def end(self) -> None:
        """The rule goes, and its alert ends."""
        self.rules.write_text("groups: []\n")
        self.process.send_signal(signal.SIGHUP)

    def sent(self) -> float:
        """Messages that the Alertmanager took."""
        text = requests.get(f"{self.url}/metrics", timeout=10).text
        lines = [line for line in text.splitlines() if line.startswith("stallwatch_notify_sent_to")]
        return sum(float(line.rpartition(" ")[2]) for line in lines)


@pytest.fixture
def agents(tmp_path: Path, alertmanager: str) -> Iterator[list[Agent]]:
    running = [Agent(tmp_path, node, alertmanager) for node in ("n1", "n2")]
    yield running
    for one in running:
        one.process.terminate()
        one.process.wait(60)


def test_two_agents_that_differ_in_their_node_are_one_alert_to_an_alertmanager(
    alertmanager: str, hook: Webhook, agents: list[Agent]
) -> None:
    wait_until(lambda: all(_answers(one.url) and one.sent() == 1 for one in agents), "both to tell")
    wait_until(lambda: hook.messages, "the Alertmanager to tell")
    for one in agents:
        one.end()
    wait_until(lambda: all(one.sent() == 2 for one in agents), "both to tell the end")
    wait_until(lambda: len(hook.messages) >= 2, "the Alertmanager to tell the end")
    told = [
        (one["status"], one["labels"], one["fingerprint"])
        for message in hook.messages
        for one in message["alerts"]
    ]
    assert told == [
        ("firing", TASK, fingerprint(TASK)),
        ("resolved", TASK, fingerprint(TASK)),
    ]
