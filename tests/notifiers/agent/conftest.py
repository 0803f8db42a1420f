"""A real agent as a process: no probe, two alerts that fire, no root."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STALLWATCH = Path(sys.executable).with_name("stallwatch")
PATIENCE = 60.0
RULES = """
groups:
- name: g
  interval: 1s
  rules:
  - {alert: Slow, expr: vector(1), labels: {rank: "1"}, annotations: {summary: waits}}
  - {alert: Slow, expr: vector(1), labels: {rank: "2"}, annotations: {summary: waits}}
"""
PROBES = (
    "clock", "cuda", "custom", "gloo", "gpu", "gpu_driver", "libraries", "mpi", "nccl", "process",
    "rdma", "tcp_retransmit", "torch_step",
)  # fmt: skip
QUICKLY = {"group_wait": "100ms", "group_interval": "500ms"}


class Agent:
    """`start` begins it, again after a `kill`; `url` is where it answers now.

    `command` and `environment`: what is started, and its environment (None: that of the tests).
    """

    def __init__(self, folder: Path, webhook: str = "") -> None:
        (folder / "rules.yaml").write_text(RULES)
        settings: dict[str, Any] = {
            "listen": "127.0.0.1:0",
            "state_dir": str(folder / "state"),
            "rule_files": [str(folder / "rules.yaml")],
            "external_labels": {"cluster": "a"},
            "receivers": [{"name": "oncall"}],
            "route": {"receiver": "oncall", "group_by": ["..."], **QUICKLY},
            "probes": {name: {"enabled": False} for name in PROBES},
        }
        if webhook:
            settings["receivers"] = [{"name": "oncall", "webhook_configs": [{"url": webhook}]}]
        self.config = folder / "stallwatch.yaml"
        self.config.write_text(json.dumps(settings))
        self.command = [str(STALLWATCH), "run", "--config", str(self.config)]
        self.environment: dict[str, str] | None = None
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._printed = folder / "printed"

    def start(self) -> None:
        with self._printed.open("w") as output:
            process = self._process = subprocess.Popen(
                self.command, stdout=output, stderr=output, env=self.environment
            )
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(r"listening (\S+)", self._printed.read_text())):
            assert process.poll() is None, self._printed.read_text()
            assert time.monotonic() < deadline, self._printed.read_text()
            time.sleep(0.05)
        self.url = found[1]

    @property
    def pid(self) -> int:
        """0 before it was started."""
        return 0 if self._process is None else self._process.pid

    @property
    def log(self) -> str:
        """What it has printed since it was started."""
        return self._printed.read_text()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def make_agent(tmp_path: Path) -> Iterator[Callable[[str], Agent]]:
    """`make_agent(webhook)`: one that tells a webhook, not started yet."""
    made: list[Agent] = []

    def make(webhook: str) -> Agent:
        made.append(Agent(tmp_path, webhook))
        return made[-1]

    yield make
    for one in made:
        one.kill()


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    running = Agent(tmp_path_factory.mktemp("agent"))
    running.start()
    yield running
    running.kill()
