from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from engine.cli.main import main
from probes.cli.probes import ProbeRow, read_metrics, render

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METRICS = """\
# TYPE stallwatch_probe_up gauge
stallwatch_probe_up{probe="torch_step"} 1.0
stallwatch_probe_up{probe="gpu",reason="library_absent"} 0.0
stallwatch_probe_up{probe="tcp_retransmit",reason="no_tracepoint"} 1.0
# TYPE stallwatch_probe_produced_total counter
stallwatch_probe_produced_total{probe="torch_step",stream=""} 1200.0
stallwatch_probe_produced_total{probe="torch_step",stream="events"} 34.0
# TYPE stallwatch_probe_lost_total counter
stallwatch_probe_lost_total{probe="torch_step",reason="map_full"} 2.0
# TYPE up gauge
up 1.0
"""


SEEN = {
    "probe": "gpu",
    "state": "off",
    "reason": "library_absent",
    "detail": "no libnvidia-ml",
    "mend": "install a driver",
}


class Agent(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        explained = self.path == "/api/v1/status/probes"
        answer = json.dumps({"status": "success", "data": [SEEN]}) if explained else METRICS
        self.wfile.write(answer.encode())

    def log_message(self, *_args: object) -> None:
        """Quiet."""


@pytest.fixture
def agent() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Agent)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def configured(folder: Path, listen: str) -> str:
    path = folder / "stallwatch.yaml"
    path.write_text(f'listen: "{listen}"\n')
    return str(path)


def test_states_and_counters_come_from_the_agents_metrics() -> None:
    assert read_metrics(METRICS) == [
        ProbeRow("gpu", "off", "library_absent"),
        ProbeRow("tcp_retransmit", "degraded", "no_tracepoint"),
        ProbeRow("torch_step", "attached", counts={"produced": 1234.0, "lost": 2.0}),
    ]


def test_a_running_agent_is_asked(
    agent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probes", "--config", configured(tmp_path, agent), "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["agent"] == agent
    assert [row["state"] for row in answer["probes"]] == ["off", "degraded", "attached"]
    assert [row["mend"] for row in answer["probes"]] == ["install a driver", "", ""]


def test_an_agent_that_does_not_explain_its_probes_is_shown_all_the_same(
    agent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SEEN, "probe", None)
    assert main(["probes", "--config", configured(tmp_path, agent)]) == 0
    assert "library_absent" in capsys.readouterr().out


def test_without_an_agent_it_says_so_and_what_could_attach(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configured(tmp_path, "127.0.0.1:1")
    assert main(["probes", "--config", config]) == 0
    text = capsys.readouterr().out
    assert text.startswith("No agent answers at 127.0.0.1:1.")
    assert "torch_step" in text
    assert main(["probes", "--config", config, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["agent"] is None
    assert {row["state"] for row in answer["probes"]} <= {"ready", "off"}


def test_the_table_has_the_mend_below_its_probe() -> None:
    rows = [
        ProbeRow("gpu", "off", "driver_absent", "the driver is not loaded", "modprobe nvidia"),
        ProbeRow("torch_step", "attached", counts={"produced": 1234.0}),
    ]
    assert render(rows).splitlines() == [
        "PROBE       STATE     REASON",
        "gpu         off       driver_absent",
        "                      the driver is not loaded",
        "                      -> modprobe nvidia",
        "torch_step  attached  produced 1,234",
    ]
