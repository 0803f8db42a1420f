from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from engine.config.model import Config
from probes.diagnosis import node

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def _states(config: Config) -> dict[str, tuple[str, str]]:
    return {f.subject: (f.state, f.detail) for f in node.findings(config)}


def test_a_port_in_use_is_a_no_with_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        state, detail = _states(Config(listen=listen))["port"]
    assert state == "no"
    assert listen in detail


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
