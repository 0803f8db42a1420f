"""kill -9 at the worst moments: clocks are kept, nothing is said twice, what fired resolves.

The condition comes from a compiled stand-in for libnvidia-ml that reads a file.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent import AgentProcess, Webhook, build_nvml, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="the probes need root"),
]

FOR_SECONDS = 12
RULES = f"""
groups:
  - name: g
    interval: 1s
    rules:
      - alert: GpuIdle
        expr: gpu_utilization < 50
        for: {FOR_SECONDS}s
"""


class Lab:
    def __init__(self, folder: Path) -> None:
        self.values = folder / "gpus"
        self.utilise(90)
        rules = folder / "rules.yaml"
        rules.write_text(RULES)
        self.webhook = Webhook()
        self.agent = AgentProcess(
            folder / "agent",
            [rules],
            self.webhook,
            environment={
                "LD_LIBRARY_PATH": str(build_nvml(folder)),
                "STALLWATCH_NVML_VALUES": str(self.values),
            },
        )

    def utilise(self, percent: int) -> None:
        scratch = self.values.with_suffix(".new")
        scratch.write_text(f"GPU-0 {percent}\n")
        scratch.replace(self.values)

    def said(self, status: str) -> list[dict[str, Any]]:
        return [
            alert
            for message in self.webhook.messages
            for alert in message["alerts"]
            if alert["status"] == status
        ]

    def state(self) -> str:
        alerts = self.agent.alerts()
        return str(alerts[0]["state"]) if alerts else ""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    lab.agent.start()
    yield lab
    lab.agent.stop()
    lab.webhook.close()


def active_at(lab: Lab) -> str:
    return str(lab.agent.alerts()[0]["activeAt"])


def test_a_kill_while_pending_keeps_the_clock(lab: Lab) -> None:
    lab.utilise(20)
    wait_until(lambda: lab.state() == "pending", "pending")
    began = active_at(lab)
    lab.agent.kill()
    lab.agent.start()
    wait_until(lab.agent.alerts, "the alert after the restart")
    assert active_at(lab) == began
    wait_until(lambda: lab.said("firing"), "firing")
    (shown,) = lab.agent.alerts()
    assert shown["activeAt"] == began
    lab.utilise(90)
    wait_until(lambda: lab.said("resolved"), "resolved")
    assert len(lab.said("firing")) == len(lab.said("resolved")) == 1


def test_a_kill_while_firing_says_nothing_twice_and_it_still_resolves(lab: Lab) -> None:
    lab.utilise(20)
    wait_until(lambda: lab.said("firing"), "firing")
    wait_until(
        lambda: [v for _, v in lab.agent.query("stallwatch_notify_sent_total") if v >= 1],
        "the acknowledgement",
    )
    lab.agent.kill()
    lab.agent.start()
    wait_until(lambda: lab.state() == "firing", "still firing")
    lab.utilise(90)
    wait_until(lambda: lab.said("resolved"), "resolved")
    assert len(lab.said("firing")) == len(lab.said("resolved")) == 1


def test_a_kill_between_send_and_acknowledgement_repeats_under_the_same_id(lab: Lab) -> None:
    taken = threading.Event()

    def kill_once(message: dict[str, Any]) -> None:
        if not taken.is_set():
            lab.agent.kill()
            taken.set()

    lab.webhook.before_answer = kill_once
    lab.utilise(20)
    wait_until(taken.is_set, "the message that kills")
    lab.agent.start()
    wait_until(lambda: len(lab.webhook.messages) >= 2, "the repeat")
    lab.utilise(90)
    wait_until(lambda: lab.said("resolved"), "resolved")
    assert len(lab.said("firing")) == 2
    first, second = (headers["Idempotency-Key"] for headers in lab.webhook.headers[:2])
    assert first == second
    assert lab.webhook.messages[0] == lab.webhook.messages[1]
