"""`stallwatch run` as a process: what signals do to it."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

STALLWATCH = Path(sys.executable).with_name("stallwatch")
PROBES = ("tcp_retransmit", "torch_step", "process", "gpu")
RULES = "groups:\n- {name: g, rules: [{record: a, expr: vector(1)}]}\n"


class Running:
    def __init__(self, folder: Path) -> None:
        self.rules = folder / "rules.yaml"
        self.rules.write_text(RULES)
        self._printed = folder / "printed"
        self.config = config = folder / "stallwatch.yaml"
        settings = {
            "listen": "127.0.0.1:0",
            "state_dir": str(folder / "state"),
            "rule_files": [str(self.rules)],
            "probes": {name: {"enabled": False} for name in PROBES},
        }
        config.write_text(json.dumps(settings))
        with self._printed.open("w") as printed:
            limited = ["sh", "-c", 'ulimit -Sn 200; exec "$0" "$@"', str(STALLWATCH)]
            command = [*limited, "run", "--config", str(config)]
            self.process = subprocess.Popen(command, stdout=printed, stderr=printed)

    @property
    def printed(self) -> str:
        return self._printed.read_text()

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while text not in self.printed:
            assert self.process.poll() is None, self.printed
            assert time.monotonic() < deadline, self.printed
            time.sleep(0.05)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    agent = Running(tmp_path)
    try:
        agent.wait_for("listening")
        yield agent
    finally:
        agent.process.kill()
        agent.process.wait()


def test_a_storm_of_sighups_is_a_reload_or_two_and_harms_nothing(running: Running) -> None:
    # The last group goes each time, so that a reload writes to state.db.
    for turn in range(20):
        running.rules.write_text(RULES if turn % 2 else RULES.replace("name: g", f"name: h{turn}"))
        for _ in range(200):
            running.process.send_signal(signal.SIGHUP)
    running.wait_for("rules loaded again")
    assert running.stop() == 0
    assert "cannot be written" not in running.printed
    assert "Traceback" not in running.printed


def test_sighup_with_broken_rules_keeps_the_present_ones(running: Running) -> None:
    running.rules.write_text("groups: [")
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("the present ones go on")
    assert running.stop() == 0


def test_sighup_says_that_a_changed_configuration_needs_a_restart(running: Running) -> None:
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("rules loaded again")
    assert "the configuration changed" not in running.printed
    running.config.write_text(running.config.read_text() + "# said otherwise\n")
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("needs a restart")
    assert f"rules only): {running.config}\n" in running.printed
    running.config.write_text("listen: [")
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("with the configuration as it is now no agent would start:")
    running.wait_for("stallwatch.yaml:1:9: not YAML")
    assert running.stop() == 0


def test_sighup_warns_of_an_empty_rule_file_as_check_does(running: Running) -> None:
    running.rules.write_text("")
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("rules loaded again: 1 files")
    assert f"WARNING {running.rules}:1:1: warning: the file is empty" in running.printed
    assert running.stop() == 0


def test_sigterm_twice_stops_once(running: Running) -> None:
    running.process.send_signal(signal.SIGTERM)
    assert running.stop() == 0


def test_the_limit_of_open_files_is_the_hard_one(running: Running) -> None:
    running.wait_for("listening")
    soft, hard = resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE)
    assert soft == hard
