"""`stallwatch alerts` against a server, and against nobody."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from engine.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALERT = {
    "labels": {"alertname": "TcpRetransmitSpike", "task_id": "torchrun:job42", "evil": "a\x1b[2Jb"},
    "annotations": {"summary": "Many\nretransmits"},
    "state": "firing",
    "activeAt": "2023-11-14T22:13:20Z",
    "firedAt": "2023-11-14T22:14:20Z",
    "value": "1.5e+00",
    "evidence": [
        {"rank": "0", "pid": 7, "comm": "python", "src": "10.0.0.1", "sport": 5000}
        | {"dst": "fd00::2", "dport": 6000, "retransmits": 12}
    ],
}


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_active_alerts_are_shown_with_their_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    body = json.dumps({"status": "success", "data": {"alerts": [ALERT]}}).encode()
    with answering(200, body) as url:
        assert main(["alerts", "--url", url]) == 0
        assert capsys.readouterr().out == (
            "firing   TcpRetransmitSpike  value 1.5  since 2023-11-14T22:14:20Z\n"
            "         evil=a [2Jb, task_id=torchrun:job42\n"
            "         Many retransmits\n"
            "         - rank 0 python[7] 10.0.0.1:5000 → [fd00::2]:6000: 12 retransmits\n"
        )
        assert main(["alerts", "--url", url, "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"alerts": [ALERT]}


def test_what_keeps_an_alert_back_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    why = {"silencedBy": ["s1", "s2"], "inhibitedBy": ["f"], "mutedBy": ["nights"]}
    body = json.dumps({"status": "success", "data": {"alerts": [ALERT | why]}}).encode()
    with answering(200, body) as url:
        assert main(["alerts", "--url", url]) == 0
    assert (
        "         silenced by s1, s2\n         inhibited by f\n         muted by the times nights\n"
    ) in capsys.readouterr().out


def test_no_alerts_is_an_answer_too(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(200, b'{"status":"success","data":{"alerts":[]}}') as url:
        assert main(["alerts", "--url", url]) == 0
    assert capsys.readouterr().out == "no active alerts\n"


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (404, b"", "answers HTTP 404"),
        (200, b"<html>", "does not answer as an agent does"),
        (200, b"[]", "does not answer as an agent does"),
    ],
)
def test_someone_else_on_the_port_is_one_clear_error(
    status: int, body: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(status, body) as url:
        assert main(["alerts", "--url", url]) == 2
    assert message in capsys.readouterr().err


def test_no_agent_is_one_clear_error(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    assert main(["alerts", "--url", url]) == 2
    said = capsys.readouterr().err
    assert f"no agent at {url}: Connection refused" in said
    assert "stallwatch run" in said
    assert main(["alerts", "--url", "localhost:9466"]) == 2
    assert "is no URL" in capsys.readouterr().err


def test_the_agent_of_the_configuration_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = json.dumps({"status": "success", "data": {"alerts": []}}).encode()
    with answering(200, body) as url:
        config = tmp_path / "stallwatch.yaml"
        config.write_text(f"listen: {url.removeprefix('http://')}\n")
        assert main(["alerts", "--config", str(config)]) == 0
    assert capsys.readouterr().out == "no active alerts\n"
