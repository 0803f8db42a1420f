from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from engine.aggregate.procfs import Procfs
from probes.diagnosis import libraries
from tests.probes.job import compiler

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


PROGRAM = """
int cudaMalloc(void **to, unsigned long bytes) { return 0; }
int main(void) { return cudaMalloc(0, 0); }
"""


@pytest.mark.parametrize(
    ("source", "flags", "maps", "expected"),
    [
        (PROGRAM, (), ("/y/libcuda.so.1",), ("linked into it", "library: train")),
        (PROGRAM, ("-s",), ("/y/libcuda.so.1",), ("stripped", "-cudart shared")),
        # What asks the driver itself, or maps a runtime, is as the probes want it.
        ("int main(void) { return 0; }", (), ("/y/libcuda.so.1",), None),
        (PROGRAM, (), ("/y/libcuda.so.1", "/x/libcudart.so.12"), None),
        (PROGRAM, (), (), None),
    ],
)
def test_a_program_with_the_runtime_of_cuda_linked_into_it_is_named_with_a_mend(
    source: str,
    flags: tuple[str, ...],
    maps: tuple[str, ...],
    expected: tuple[str, str] | None,
    tmp_path: Path,
) -> None:
    program, proc = tmp_path / "train", tmp_path / "proc"
    proc.mkdir()
    command = [compiler(), "-x", "c", "-", *flags, "-o", str(program)]
    subprocess.run(command, input=source, text=True, check=True)
    for pid in (1, 2):
        _runs(proc, pid, *maps)
        (proc / str(pid) / "exe").symlink_to(program)
    found = [e for e in libraries.findings(Procfs(proc)) if e.subject == "CUDA runtime"]
    if expected is None:
        assert found == []
        return
    (finding,) = found
    assert finding.state == "degraded"
    assert str(program) in finding.detail
    assert expected[0] in finding.detail
    assert expected[1] in finding.mend


def test_a_program_with_a_name_that_no_terminal_can_show_is_named_all_the_same(
    tmp_path: Path,
) -> None:
    program, proc = tmp_path / "train\udcff\x1b[2J", tmp_path / "proc"
    proc.mkdir()
    command = [compiler(), "-x", "c", "-", "-s", "-o", str(program)]
    subprocess.run(command, input=PROGRAM, text=True, check=True)
    _runs(proc, 1, "/y/libcuda.so.1")
    (proc / "1" / "exe").symlink_to(program)
    (detail,) = [e.detail for e in libraries.findings(Procfs(proc)) if e.subject == "CUDA runtime"]
    assert "train??[2J" in detail
    assert detail.encode().isascii()


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
