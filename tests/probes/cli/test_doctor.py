"""The doctor under each set of capabilities, on the running kernel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from probes.bpf.capabilities import has_uprobe_multi
from probes.cli.doctor import render
from probes.diagnosis.finding import Finding

ROOT = Path(__file__).resolve().parents[3]


def test_a_mend_stands_below_its_no_and_the_end_names_what_cannot_run() -> None:
    text = render(
        [Finding("kernel", "ok", "6.18"), Finding("bcc", "no", "not found", "apt-get install it")]
    )
    assert text.splitlines() == [
        "ok    kernel  6.18",
        "NO    bcc     not found",
        "              -> apt-get install it",
        "",
        "Not everything can run here: bcc.",
    ]


def _doctor(*prefix: str, env: dict[str, str] | None = None) -> tuple[int, dict[str, Any], str]:
    """Exit status, state by subject, and what was printed besides."""
    code = "import sys; from engine.cli.main import main; sys.exit(main(sys.argv[1:]))"
    asked = [sys.executable, "-c", code, "doctor", "--format", "json"]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write("listen: 127.0.0.1:0\n")  # an agent may run on this machine
        config.flush()
        Path(config.name).chmod(0o644)
        done = subprocess.run(
            [*prefix, *asked, f"--config={config.name}"],
            cwd=ROOT,
            env={**os.environ, "HOME": "/tmp", **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )
    assert "Traceback" not in done.stderr
    report = json.loads(done.stdout)
    states = {each["subject"]: each["state"] for each in report["findings"]}
    assert done.returncode == (1 if "no" in states.values() else 0)
    for each in report["findings"]:
        assert each["state"] != "no" or each["mend"] or "not tried" in each["detail"], each
    return done.returncode, states, done.stderr


def _as_user(*capabilities: str) -> list[str]:
    """A command prefix: uid 65534 with just these capabilities."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv")
    sets = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    prefix = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    prefix += ["--inh-caps", sets, "--ambient-caps", sets, "--bounding-set", sets]
    trial = subprocess.run(
        [*prefix, sys.executable, "-c", "import engine"], cwd=ROOT, capture_output=True, check=False
    )
    if trial.returncode != 0:
        pytest.skip("another user cannot reach this interpreter or checkout")
    return prefix


def test_without_any_capability_everything_is_answered() -> None:
    status, states, errors = _doctor(*_as_user())
    assert status == 1
    assert states["privileges"] == states["BPF programs"] == states["uprobes"] == "no"
    assert states["kernel"] == states["bcc"] == states["port"] == "ok"
    assert errors == ""


@pytest.mark.root
@pytest.mark.parametrize(
    ("capabilities", "tracefs", "programs"),
    [
        (("bpf", "perfmon"), "no", "ok"),
        (("bpf", "perfmon", "dac_read_search"), "ok", "ok"),
        (("bpf", "perfmon", "dac_read_search", "sys_admin"), "ok", "ok"),
        (("sys_admin", "dac_read_search"), "ok", "ok"),
        (("perfmon", "dac_read_search"), "ok", "no"),
    ],
)
def test_each_set_of_capabilities_is_told_from_the_others(
    capabilities: tuple[str, ...], tracefs: str, programs: str
) -> None:
    _, states, errors = _doctor(*_as_user(*capabilities))
    assert states["tracefs"] == tracefs
    assert states["BPF programs"] == programs
    needed = {"bpf", "perfmon"} if has_uprobe_multi() else {"sys_admin"}
    may = "sys_admin" in capabilities or needed <= set(capabilities)
    assert states["uprobes"] == ("ok" if may else "no")
    assert errors == ""


def test_without_bcc_it_names_the_package_to_install(tmp_path: Path) -> None:
    (tmp_path / "bcc.py").write_text("raise ImportError('libbcc.so.0 is missing')")
    status, states, _ = _doctor(env={"PYTHONPATH": str(tmp_path)})
    assert status == 1
    assert states["bcc"] == states["BPF programs"] == "no"


def test_the_lattice_package_called_bcc_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "bcc.py").write_text("lattice = 'body-centred cubic'")
    assert _doctor(env={"PYTHONPATH": str(tmp_path)})[1]["bcc"] == "no"
