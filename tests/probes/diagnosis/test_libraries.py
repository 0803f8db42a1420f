from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.aggregate.procfs import Procfs
from probes.diagnosis import libraries

if TYPE_CHECKING:
    from pathlib import Path


def _runs(proc: Path, pid: int, *paths: str) -> None:
    (proc / str(pid)).mkdir()
    lines = [f"7f{n}0000-7f{n}ffff r-xp 0 fe:00 {n + 9} {path}" for n, path in enumerate(paths)]
    (proc / str(pid) / "maps").write_text("\n".join(lines))


def test_each_layer_counts_its_processes_once(tmp_path: Path) -> None:
    _runs(tmp_path, 1, "/usr/lib/libc.so.6")
    _runs(tmp_path, 2, "/x/libcudart.so.12", "/y/libcuda.so.1", "/z/libtorch_cpu.so")
    _runs(tmp_path, 3, "/x/libmpi_cxx.so.40", "/x/libnccl.so.2.21.5")
    (tmp_path / "4").mkdir()  # it ends while it is looked at
    found = {each.subject: each.detail for each in libraries.findings(Procfs(tmp_path))}
    assert {layer: detail.partition(" map ")[0] for layer, detail in found.items()} == {
        "PyTorch": "1 of 4 processes",
        "CUDA": "1 of 4 processes",
        "NCCL": "1 of 4 processes",
        "MPI": "1 of 4 processes",
        "other processes": "every process can be looked into",
    }


@pytest.mark.parametrize(("capabilities", "state"), [({"sys_ptrace"}, "ok"), (set(), "degraded")])
def test_a_process_that_is_closed_to_us_is_less_only_if_a_capability_would_open_it(
    capabilities: set[str], state: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def closed(*_: object) -> None:
        raise PermissionError

    class Privileges:
        effective = capabilities

    monkeypatch.setattr("probes.diagnosis.libraries.LibraryNames.mapped_by", closed)
    monkeypatch.setattr("probes.diagnosis.libraries.capabilities.read_privileges", Privileges)
    _runs(tmp_path, 1)
    last = list(libraries.findings(Procfs(tmp_path)))[-1]
    assert (last.subject, last.state) == ("other processes", state)
    assert bool(last.mend) == (state == "degraded")
