"""The whole agent where something is missing: it starts, says why, and runs the rest."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from probes.bpf import capabilities
from rules.packs import shipped
from tests.e2e.agent import STALLWATCH, AgentProcess, free_port, wait_until
from tests.e2e.environments import (
    BCC,
    EVERYTHING,
    TRACEPOINTS,
    UPROBES,
    as_user,
    skip_unless_reachable,
    with_mounts,
    without_bcc,
    without_headers,
    without_tracefs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

ATTACHED = "attached"
NO_ROOT, CLOSED = "off no_root", "off missing_capability"
POLLED = "degraded poller"
# From kernel 6.6 on uprobes need no CAP_SYS_ADMIN.
UNPRIVILEGED = ATTACHED if capabilities.has_uprobe_multi() else CLOSED
# What each environment lets run: process, tcp_retransmit, torch_step.
ENVIRONMENTS: dict[str, tuple[list[str], tuple[str, str, str]]] = {
    "root": ([], (ATTACHED, ATTACHED, ATTACHED)),
    "no kernel headers": (without_headers(), (ATTACHED, ATTACHED, ATTACHED)),
    "no bcc": (without_bcc(), ("off no_bcc", POLLED, "off no_bcc")),
    "no tracefs": (without_tracefs(), ("degraded no_tracefs", POLLED, ATTACHED)),
    "root without capabilities": (
        ["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
        (CLOSED, POLLED, CLOSED),
    ),
    "not root": (as_user(), (NO_ROOT, POLLED, NO_ROOT)),
    "bpf and perfmon": (as_user(*BCC), ("degraded missing_capability", POLLED, UNPRIVILEGED)),
    "and dac_read_search": (
        as_user(*TRACEPOINTS),
        (ATTACHED, "degraded missing_capability", UNPRIVILEGED),
    ),
    "and sys_admin": (as_user(*UPROBES), (ATTACHED, ATTACHED, ATTACHED)),
    "and sys_ptrace": (as_user(*EVERYTHING), (ATTACHED, ATTACHED, ATTACHED)),
}
# Another user's job may run on this machine whose library only CAP_SYS_PTRACE would open.
SOMEBODY_ELSES = "degraded unreadable_library"
# What the doctor must have found fine where a probe is attached.
FINE = {
    "process": "BPF programs",
    "tcp_retransmit": "tracepoint tcp:tcp_retransmit_skb",
    "torch_step": "uprobes",
}
LINE = re.compile(
    r"^(?P<probe>[a-z_]+) +(?P<state>attached|degraded|off) *(?P<reason>[a-z_]*)(: )?(?P<detail>.*)"
    r"(\n +mend: (?P<mend>.*))?$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Line:
    """A probe's line of the table that the agent prints."""

    state: str
    reason: str
    detail: str
    mend: str

    @property
    def word(self) -> str:
        return f"{self.state} {self.reason}" if self.state != ATTACHED else ATTACHED


def probe_lines(log: str) -> dict[str, Line]:
    """The table by probe; each probe must have exactly one line."""
    table = log[log.index("PROBE ") : log.index("\n\nrules ")]
    found = [
        (
            match["probe"],
            Line(*(match[name] or "" for name in ("state", "reason", "detail", "mend"))),
        )
        for match in LINE.finditer(table)
    ]
    assert sorted(name for name, _ in found) == sorted({name for name, _ in found})
    return dict(found)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach and write, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="stallwatch-environments-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


def doctor(folder: Path, *prefix: str) -> list[dict[str, str]]:
    done = subprocess.run(
        [*prefix, str(STALLWATCH), "doctor", "--format", "json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    findings: list[dict[str, str]] = json.loads(done.stdout)["findings"]
    return findings


def agrees(findings: list[dict[str, str]], probe: str, line: Line) -> bool:
    """Whether the doctor said before what the agent says of a probe now."""
    states = {finding["subject"]: finding["state"] for finding in findings}
    if line.reason == "disabled":
        return True  # nobody asked for it: no finding about this machine
    if line.state == ATTACHED:
        return states.get(FINE.get(probe, ""), "ok") == "ok"
    lacking = re.findall(r"CAP_([A-Z_]+)", line.mend)
    return any(
        finding["state"] != "ok"
        and (finding["detail"].startswith(line.detail) or finding["detail"] in line.detail)
        and finding["mend"] == line.mend
        for finding in findings
    ) or any(states[f"capability {name.lower()}"] != "ok" for name in lacking)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_it_starts_says_why_and_runs_the_rest(name: str, folder: Path) -> None:
    prefix, expected = ENVIRONMENTS[name]
    skip_unless_reachable(prefix, folder)
    findings = doctor(folder, *prefix)
    agent = AgentProcess(folder, list(shipped()), environment={"HOME": str(folder)})
    agent.start(*prefix)
    try:
        wait_until(lambda: "listening" in agent.log, "the report", 30)
        lines = probe_lines(agent.log)
        words = tuple(lines[probe].word for probe in FINE)
        if words[2] == SOMEBODY_ELSES and expected[2] == ATTACHED:
            words = (*words[:2], ATTACHED)
        assert words == expected
        assert all(line.mend for line in lines.values() if line.state != ATTACHED)
        for probe, line in lines.items():
            assert agrees(findings, probe, line), (probe, line, findings)
        up = {tags["probe"]: value for tags, value in sampled(agent, "stallwatch_probe_up")}
        assert up == {probe: float(line.state != "off") for probe, line in lines.items()}
        if not expected[0].startswith("off"):
            wait_until(lambda: starts_programs(agent), "program starts to be counted", 60)
    finally:
        status = agent.stop()
    assert status == 0
    assert "Traceback" not in agent.log


def sampled(agent: AgentProcess, metric: str) -> list[tuple[dict[str, str], float]]:
    """The series of a metric, after the first flush."""
    found: list[tuple[dict[str, str], float]]
    found = wait_until(lambda: agent.query(metric), f"{metric} to be sampled", 60)
    return found


def starts_programs(agent: AgentProcess) -> bool:
    """Start one, and see whether any was counted."""
    subprocess.run(["true"], check=True)
    return any(value > 0 for _, value in agent.query("process_exec_total"))


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        ("mount -t tmpfs -o ro none {state}", "Read-only file system"),
        (
            "mount -t tmpfs -o size=64k none {state} && cp /bin/sh {state} 2>{state}/full || true",
            "No space left on device",
        ),
    ],
)
def test_where_state_cannot_be_written_it_runs_in_memory_and_says_so(
    prepare: str, why: str, folder: Path
) -> None:
    state = folder / "state"
    state.mkdir()
    prefix = with_mounts(prepare.format(state=state))
    skip_unless_reachable(prefix, folder)
    agent = AgentProcess(folder, list(shipped()))
    agent.start(*prefix)
    wait_until(lambda: "listening" in agent.log, "the report", 30)
    try:
        assert [value for _, value in sampled(agent, "stallwatch_state_up")] == [0]
        assert [value for _, value in sampled(agent, "stallwatch_recording_up")] == [0]
    finally:
        status = agent.stop()
    assert status == 0
    complaints = [
        line for line in agent.log.splitlines() if " WARNING " in line or " ERROR " in line
    ]
    assert len(complaints) == 2
    assert f"{state}/state.db: cannot be written (" in complaints[0]
    assert "running without a recording" in complaints[1]
    assert why in complaints[1]
    assert f"state     in memory, for {state} cannot be written" in agent.log
    (memory,) = re.findall(r"live in memory \((\S+)/state.db\)", complaints[0])
    # The disk did not take it at the end either: the next agent finds it there.
    assert (Path(memory) / "state.db").stat().st_size
    shutil.rmtree(memory)


def test_a_user_whose_home_cannot_be_written_gets_an_agent_that_says_so(folder: Path) -> None:
    prefix = as_user()
    skip_unless_reachable(prefix, folder)
    command = [*prefix, str(STALLWATCH), "run", "--listen", f"127.0.0.1:{free_port()}"]
    environment = {**os.environ, "HOME": "/nonexistent"}
    environment.pop("XDG_STATE_HOME", None)
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=-1, stderr=-2, text=True
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("listening"):
                process.terminate()
    assert process.returncode == 0
    kept = "state     in memory, for /nonexistent/.local/state/stallwatch cannot be written"
    assert any(line.startswith(kept) for line in lines)


def refused(*arguments: str) -> list[str]:
    """What `stallwatch run` says when it cannot: exit status 2."""
    done = subprocess.run(
        [str(STALLWATCH), "run", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()


def test_a_second_agent_is_refused_the_first_ones_port_and_folder(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path, list(shipped()))
    agent.start()
    try:
        refuse_a_second(agent, tmp_path)
    finally:
        status = agent.stop()
    assert status == 0


def refuse_a_second(agent: AgentProcess, tmp_path: Path) -> None:
    assert agent.process is not None
    port, own = f"127.0.0.1:{agent.port}", str(tmp_path / "other")
    assert refused("--listen", port, "--state", own) == [
        f"stallwatch: cannot listen on {port}: Address already in use",
        "    hint: --listen HOST:PORT (or `listen:` in stallwatch.yaml) chooses another address",
    ]
    free = f"127.0.0.1:{free_port()}"
    said = refused("--config", str(tmp_path / "stallwatch.yaml"), "--listen", free)
    assert said == [
        f"{agent.recording.parent}: another agent (pid {agent.process.pid}) has its state here",
        "    hint: stop it, or start this one elsewhere (--state, state_dir in stallwatch.yaml)",
    ]
    assert agent.get("/-/ready")


RULES = """groups:
- name: a
  rules:
  - alert: X
    expr: sum(rate(x[5m]) >
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--listen nonsense", "stallwatch: --listen nonsense: not HOST:PORT"),
        ("--listen 127.0.0.1:99999", "stallwatch: --listen 127.0.0.1:99999: not HOST:PORT"),
        (
            "--listen 192.0.2.1:9466",
            "stallwatch: cannot listen on 192.0.2.1:9466: Cannot assign requested address",
        ),
        ("--config {folder}/none.yaml", "{folder}/none.yaml: No such file or directory"),
        ("--config {folder}", "{folder}: Is a directory"),
        (
            "--config {folder}/typo.yaml",
            "{folder}/typo.yaml:1:1: the configuration has no field 'listne'",
        ),
        ("--rules {folder}/none.yaml", "{folder}/none.yaml: No such file or directory"),
        ("--rules {folder}/rules.yaml", "{folder}/rules.yaml:5:28: unexpected end of expression,"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_error_at_its_place(
    arguments: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "typo.yaml").write_text("listne: 127.0.0.1:9466\n")
    (tmp_path / "rules.yaml").write_text(RULES)
    state = ("--state", str(tmp_path / "state"))
    lines = refused(*state, *arguments.format(folder=tmp_path).split())
    assert lines[0].startswith(said.format(folder=tmp_path))
    assert len([line for line in lines if line and not line.startswith(" ")]) == 1
