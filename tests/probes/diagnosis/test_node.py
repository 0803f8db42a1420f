from __future__ import annotations

import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from engine.config.model import Config
from probes.diagnosis import node

if TYPE_CHECKING:
    from pathlib import Path


def _states(config: Config) -> dict[str, tuple[str, str]]:
    return {f.subject: (f.state, f.detail) for f in node.findings(config)}


def test_a_port_in_use_is_a_no_with_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        state, detail = _states(Config(listen=listen))["port"]
    assert state == "no"
    assert listen in detail


class _Answering(BaseHTTPRequestHandler):
    body = b""

    def do_GET(self) -> None:
        assert self.path == "/api/v1/status/buildinfo"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("body", "state", "said"),
    [
        (b'{"data": {"application": "stallwatch"}}', "ok", "a stallwatch agent runs here already"),
        (b'{"data": {"version": "3.1.0"}}', "no", "Address already in use"),
        (b"[1]", "no", "Address already in use"),
        (b"<html>", "no", "Address already in use"),
    ],
)
def test_our_own_agent_on_the_port_is_known_as_such(
    body: bytes, state: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Answering, "body", body)
    with HTTPServer(("127.0.0.1", 0), _Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            listen = f"127.0.0.1:{server.server_port}"
            assert _states(Config(listen=listen))["port"] == (state, f"{listen}: {said}")
        finally:
            server.shutdown()
            thread.join()


def test_a_state_folder_that_does_not_exist_yet_is_fine_below_one_that_can_be_written(
    tmp_path: Path,
) -> None:
    assert _states(Config(state_dir=tmp_path / "a" / "b"))["state folder"][0] == "ok"
    (tmp_path / "file").write_text("")
    assert _states(Config(state_dir=tmp_path / "file" / "b"))["state folder"][0] == "no"


def test_every_subject_is_answered_once() -> None:
    found = [finding.subject for finding in node.findings(Config())]
    assert found == [
        "NVML",
        "RDMA",
        "PyTorch",
        "CUDA",
        "NCCL",
        "MPI",
        "other processes",
        "state folder",
        "port",
        "clock",
    ]


def test_a_full_disk_is_a_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)
    full = os.statvfs_result([*real[:3], 0, 0, *real[5:]])
    monkeypatch.setattr("probes.diagnosis.node.os.statvfs", lambda place: full)
    found = _states(Config(state_dir=tmp_path / "state"))["state folder"]
    assert found == ("no", f"{tmp_path}/state is on a full disk")
