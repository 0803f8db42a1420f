"""Each probe over BPF under each set of capabilities: attached, degraded or off, and why."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.root

STATUSES = """
import json, sys
from engine.readings import ProbeOptions
from probes.process.probe import ProcessProbe
from probes.tcp_retransmit.probe import TcpRetransmitProbe

answers = []
for probe in (ProcessProbe(), TcpRetransmitProbe()):
    status = probe.start(ProbeOptions(), lambda reading: None)
    probe.poll()
    probe.produced()
    probe.collect()
    probe.stop()
    answers.append((status.state, status.reason, status.mend))
print(json.dumps(answers))
"""
ATTACHED = ("attached", "")
CLOSED = ("off", "missing_capability")
POLLED = ("degraded", "poller")


def _python(code: str, *prefix: str) -> subprocess.CompletedProcess[str]:
    command = [*prefix, sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def _statuses(*prefix: str) -> list[tuple[str, str]]:
    """(state, reason) of process and tcp_retransmit; each that is not attached has a mend."""
    # A checkout below /root, or a container without namespaces of its own.
    trial = _python("import engine, probes", *prefix)
    if trial.returncode != 0:
        pytest.skip(f"cannot be tried here: {trial.stderr.strip().splitlines()[-1]}")
    done = _python(STATUSES, *prefix)
    assert done.stderr == ""
    answers = json.loads(done.stdout)
    assert all(state == "attached" or mend for state, _, mend in answers)
    return [(state, reason) for state, reason, _ in answers]


@pytest.mark.parametrize(
    ("capabilities", "process", "tcp_retransmit"),
    [
        ((), ("off", "no_root"), POLLED),
        (("bpf",), ("off", "no_root"), POLLED),
        (("bpf", "perfmon"), ("degraded", "missing_capability"), POLLED),
        (
            ("bpf", "perfmon", "dac_read_search"),
            ATTACHED,
            ("degraded", "missing_capability"),
        ),
        (("bpf", "perfmon", "dac_read_search", "sys_admin"), ATTACHED, ATTACHED),
        (("bpf", "perfmon", "dac_read_search", "sys_admin", "sys_ptrace"), ATTACHED, ATTACHED),
    ],
)
def test_an_ordinary_user_gets_what_its_capabilities_allow(
    capabilities: tuple[str, ...],
    process: tuple[str, str],
    tcp_retransmit: tuple[str, str],
) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    sets = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    caps = ["--inh-caps", sets, "--ambient-caps", sets, "--bounding-set", sets]
    assert _statuses(*user, *caps) == [process, tcp_retransmit]


def test_root_without_capabilities_is_told_which_are_missing() -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    nothing = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    assert _statuses(*nothing) == [CLOSED, POLLED]


def test_root_of_a_user_namespace_is_not_root() -> None:
    assert _statuses("unshare", "-Ur") == [CLOSED, POLLED]


def test_in_a_pid_namespace_owners_are_not_guessed_from_pids_of_another() -> None:
    found = _statuses("unshare", "-p", "-m", "-f", "--mount-proc")
    assert found == [("degraded", "pid_namespace")] * 2


def test_where_tracefs_cannot_be_had_the_probe_without_fields_runs_on() -> None:
    hide = 'umount /sys/kernel/tracing; mount -t tmpfs none /sys/kernel && exec "$@"'
    if not os.path.ismount("/sys/kernel/tracing"):
        hide = 'mount -t tmpfs none /sys/kernel && exec "$@"'
    found = _statuses("unshare", "-m", "sh", "-c", hide, "sh")
    assert found == [("degraded", "no_tracefs"), POLLED]
