"""`stallwatch demo` for real: it fires, it resolves, and it leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces and probes need root"),
]

CODE = "import sys; from engine.cli.main import main; sys.exit(main(sys.argv[1:]))"
COMMAND = [sys.executable, "-c", CODE, "demo"]


def start(*arguments: str) -> subprocess.Popen[str]:
    """The demo as a process; what it prints comes through its stdout."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def until(demo: subprocess.Popen[str], word: str) -> str:
    """What the demo prints up to the line with a word."""
    assert demo.stdout is not None
    seen = []
    for line in demo.stdout:
        seen.append(line)
        if word in line:
            return "".join(seen)
    raise AssertionError("".join(seen) + (demo.stderr.read() if demo.stderr else ""))


def left_of(pid: int) -> list[str]:
    """Whatever on this machine bears the name of a demo, or runs as one of its ranks."""
    listed = json.loads(subprocess.check_output(["ip", "-json", "netns", "list"]) or "[]")
    mark = f"stallwatch-demo-{pid}-"
    found = [entry["name"] for entry in listed if entry["name"].startswith(mark)]
    found += [str(path) for path in Path(tempfile.gettempdir()).glob(f"{mark}*")]
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environ = (path / "environ").read_bytes()
        except OSError:
            continue
        if f"STALLWATCH_TASK_ID=demo-{pid}\0".encode() in environ:
            found.append(str(path))
    return found


def firewall() -> str:
    return subprocess.check_output(["nft", "list", "ruleset"], text=True)


def test_the_alert_fires_with_ranks_and_connections_and_resolves(tmp_path: Path) -> None:
    before = firewall()
    kept = tmp_path / "kept"
    demo = start("--keep-recording", str(kept))
    shown, errors = demo.communicate(timeout=280)
    assert demo.returncode == 0, shown + errors
    assert errors == ""
    words = re.findall(r"^20\S+Z  (\w+)", shown, re.MULTILINE)
    told = [word for word in words if word != "beside"]
    assert told == [
        *("network", "rules", "agent", "job", "clean"),
        *("loss", "pending", "FIRING", "healed", "RESOLVED", "removed"),
    ]
    assert re.search(r"clean: 0\.0 retransmits/s, \d+\.\d steps/s, no alert", shown)
    task = f"demo-{demo.pid}"
    assert f"task_id={task}" in shown
    pids = dict(re.findall(r"rank (\d) is pid (\d+)", shown))
    rows = re.findall(
        r"^ +(\d) +\S+\[(\d+)\] +10\.98\.0\.(\d):\d+ → 10\.98\.0\.(\d):\d+ +\d+$",
        shown,
        re.MULTILINE,
    )
    assert rows
    for rank, pid, source, to in rows:
        assert pid == pids[rank]
        assert (source, to) == (("1", "2") if rank == "0" else ("2", "1"))
    assert left_of(demo.pid) == []
    assert firewall() == before
    assert _dry_run(kept) == ["TaskRetransmits"]


def _dry_run(kept: Path) -> list[str]:
    """Alerts of the demo's task that the kept rules find in the kept recording."""
    rules, data = str(kept / "rules"), str(kept / "recording")
    printed = subprocess.check_output(
        [
            *(sys.executable, "-c", CODE, "dry-run", "--format", "json"),
            *("--rules", rules, "--data", data),
        ]
    )
    alerts = json.loads(printed)["alerts"]
    return [
        alert["alertname"]
        for alert in alerts
        if alert["labels"].get("task_id", "").startswith("demo-")
    ]


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_in_the_middle_leaves_nothing_behind(number: signal.Signals, status: int) -> None:
    demo = start()
    until(demo, "rank 1 is pid")
    assert left_of(demo.pid)
    demo.send_signal(number)
    shown, errors = demo.communicate(timeout=60)
    assert demo.returncode == status
    assert "interrupted; namespaces, processes and temporary files are removed" in shown
    assert "Traceback" not in errors
    assert left_of(demo.pid) == []


def test_a_second_ctrl_c_does_not_stop_the_clean_up() -> None:
    demo = start()
    until(demo, "rank 1 is pid")
    for _ in range(20):
        demo.send_signal(signal.SIGINT)
        time.sleep(0.05)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert "Traceback" not in errors
    assert left_of(demo.pid) == []


def test_ctrl_c_while_the_network_is_made_leaves_nothing_behind() -> None:
    demo = start()
    until(demo, "stallwatch demo:")
    deadline = time.monotonic() + 60
    while not left_of(demo.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert left_of(demo.pid) == []


def test_what_a_killed_demo_left_goes_with_the_next_one() -> None:
    killed = start()
    until(killed, "rank 1 is pid")
    killed.kill()
    killed.communicate(timeout=60)
    # The ranks end by themselves; namespaces and the folder cannot.
    deadline = time.monotonic() + 30
    while any("/proc/" in thing for thing in left_of(killed.pid)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert len(left_of(killed.pid)) == 3
    following = start()
    until(following, "network:")
    assert left_of(killed.pid) == []
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=60)
    assert left_of(following.pid) == []


def test_a_rank_that_dies_ends_the_demo_with_one_clear_error() -> None:
    demo = start()
    shown = until(demo, "rank 1 is pid")
    os.kill(int(re.findall(r"rank 1 is pid (\d+)", shown)[0]), signal.SIGKILL)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 2
    assert re.fullmatch(r"stallwatch demo: rank [01] ended with exit status -?\d+.*\n", errors)
    assert left_of(demo.pid) == []


def test_an_alert_that_does_not_fire_in_time_is_exit_1() -> None:
    demo = start("--seconds", "5")
    shown, _ = demo.communicate(timeout=120)
    assert demo.returncode == 1
    assert "TaskRetransmits did not fire within 5 s" in shown
    assert left_of(demo.pid) == []


def test_without_bcc_it_replays(tmp_path: Path) -> None:
    (tmp_path / "bcc.py").write_text("raise ImportError('no bcc here')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {CODE}"
    done = subprocess.run(
        [sys.executable, "-c", code, "demo", "--speed", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "bcc" in done.stdout.splitlines()[1]
    assert "replaying a recording of this demo, made on" in done.stdout
    assert "RESOLVED" in done.stdout


def test_another_user_sees_the_replay() -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv (util-linux)")
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    reach = [*nobody, sys.executable, "-c", "import engine"]
    if subprocess.run(reach, check=False, capture_output=True).returncode != 0:
        # This interpreter lies in root's home: nobody needs to be let through to it.
        sets = "-all,+dac_read_search"
        nobody += ["--inh-caps", sets, "--ambient-caps", sets, "--bounding-set", sets]
    done = subprocess.run(
        [*nobody, *COMMAND, "--speed", "0"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "no root: replaying a recording of this demo, made on" in done.stdout
    assert "FIRING" in done.stdout
    assert "RESOLVED" in done.stdout
    assert done.stderr == ""
