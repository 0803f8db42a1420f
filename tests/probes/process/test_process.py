from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.readings import Count, Event, ProbeOptions
from probes.process.cgroups import MOUNTS
from probes.process.probe import ProcessProbe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.readings import FieldValue, Reading

THREADS_UNTIL_KILLED = """
import threading, time
for _ in range(8):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True)
time.sleep(60)
"""
HANDLES_ITS_SIGNAL = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: None)
print("ready", flush=True)
time.sleep(1)
"""
EATS_MEMORY = """
import sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
b"x" * (1 << 28)
"""
EXITS_WITH_THREADS = """
import os, threading, time
for _ in range(8):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
os._exit(0)
"""
LEADER_LEAVES_FIRST = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


class Watched:
    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.probe = ProcessProbe()
        self.status = self.probe.start(ProbeOptions(), self.readings.append)

    def settle(self) -> None:
        self.probe.poll()
        self.probe.collect()

    def total(self, metric: str, **labels: str) -> float:
        wanted = tuple(labels.items())
        return sum(
            each.delta
            for each in self.readings
            if isinstance(each, Count) and each.metric == metric and each.labels == wanted
        )

    def events(self, pid: int) -> list[tuple[str, dict[str, FieldValue]]]:
        found = [(e.kind, dict(e.fields)) for e in self.readings if isinstance(e, Event)]
        return [(kind, fields) for kind, fields in found if fields["pid"] == pid]


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    try:
        assert made.status.state == "attached", made.status
        yield made
    finally:
        made.probe.stop()


def _unified_hierarchy() -> Path:
    for mount in MOUNTS:
        if (mount / "cgroup.controllers").exists():
            return mount
    pytest.skip("no unified control group hierarchy")


def _python(code: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.each_kernel
@pytest.mark.root
def test_starts_are_counted_and_consumed_matches_produced(watched: Watched) -> None:
    for _ in range(5):
        subprocess.run(["true"], check=True)
    produced = dict(watched.probe.produced().produced)
    watched.settle()
    counts = [each for each in watched.readings if isinstance(each, Count) and not each.stream]
    assert all(each.process is None and each.delta == each.weight for each in counts)
    assert sum(each.weight for each in counts) >= produced[""] >= 5


@pytest.mark.each_kernel
@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGABRT])
def test_an_end_by_a_signal_is_counted_once_however_many_threads_there_are(
    watched: Watched, number: signal.Signals
) -> None:
    before = watched.total("process_killed_total", signal=number.name)
    victim = _python(THREADS_UNTIL_KILLED)
    victim.send_signal(number)
    os.waitid(os.P_PID, victim.pid, os.WEXITED | os.WNOWAIT)  # a zombie keeps its entry in /proc
    watched.settle()
    victim.wait()
    ((kind, fields),) = watched.events(victim.pid)
    assert (kind, fields["signal"]) == ("process_killed", number.name)
    assert fields.get("sender_pid") == (
        os.getpid() if number in {signal.SIGKILL, signal.SIGTERM} else None
    )
    assert watched.total("process_killed_total", signal=number.name) - before >= 1


@pytest.mark.each_kernel
@pytest.mark.root
def test_an_ordinary_exit_is_not_taken_for_a_kill_of_its_threads(watched: Watched) -> None:
    leaving = subprocess.Popen([sys.executable, "-S", "-c", EXITS_WITH_THREADS])
    os.waitid(os.P_PID, leaving.pid, os.WEXITED | os.WNOWAIT)
    watched.settle()
    leaving.wait()
    assert watched.events(leaving.pid) == []


@pytest.mark.root
def test_signals_that_are_handled_or_harmless_end_nothing(watched: Watched) -> None:
    process = _python(HANDLES_ITS_SIGNAL)
    for number in (signal.SIGTERM, signal.SIGWINCH, signal.SIGSTOP, signal.SIGCONT):
        process.send_signal(number)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    watched.settle()
    process.wait()
    assert watched.events(process.pid) == []


@pytest.mark.root
def test_a_process_whose_leader_left_first_is_found_by_the_sweep(watched: Watched) -> None:
    before = watched.total("process_killed_total", signal="SIGKILL")
    process = _python(LEADER_LEAVES_FIRST)
    while Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
        time.sleep(0.01)  # the leader
    process.kill()
    process.wait()
    watched.settle()
    assert watched.total("process_killed_total", signal="SIGKILL") - before >= 1
    produced = dict(watched.probe.produced().produced)["ends"]
    assert produced == sum(
        each.weight for each in watched.readings if isinstance(each, Count) and each.stream
    )


@pytest.mark.each_kernel
@pytest.mark.root
def test_the_out_of_memory_killers_choice_is_named(watched: Watched) -> None:
    group = Path("/sys/fs/cgroup/memory") / f"stallwatch-oom-{os.getpid()}"
    if not group.parent.exists():
        group = Path("/sys/fs/cgroup") / group.name
        with contextlib.suppress(OSError):  # systemd has done so, a bare machine has not
            (group.parent / "cgroup.subtree_control").write_text("+memory")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no memory control group can be made: {error}")
    limit = group / "memory.limit_in_bytes"
    try:
        (limit if limit.exists() else group / "memory.max").write_text(str(32 << 20))
        victim = subprocess.Popen([sys.executable, "-S", "-c", EATS_MEMORY, str(group)])
        os.waitid(os.P_PID, victim.pid, os.WEXITED | os.WNOWAIT)
        watched.settle()
        assert victim.wait() == -signal.SIGKILL
        assert ("oom_kill", "SIGKILL") in [
            (kind, fields["signal"]) for kind, fields in watched.events(victim.pid)
        ]
        assert watched.total("process_oom_kills_total") >= 1
    finally:
        for _ in range(50):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


@pytest.mark.each_kernel
@pytest.mark.root
def test_a_storm_of_starts_is_told_by_its_container(watched: Watched) -> None:
    root = _unified_hierarchy()
    identity = f"{os.getpid():064x}"
    group = root / f"docker-{identity}.scope"
    group.mkdir()
    try:
        script = f"echo $$ > {group}/cgroup.procs; for i in 1 2 3 4 5 6 7; do /bin/true; done"
        subprocess.run(["sh", "-c", script], check=True)
        watched.settle()
        assert watched.total("process_exec_total", container=f"container:{identity[:12]}") == 7
    finally:
        group.rmdir()


@pytest.mark.root
def test_a_full_table_of_starts_is_told(tmp_path: Path) -> None:
    root = _unified_hierarchy()
    probe = ProcessProbe()
    groups = [root / f"stallwatch-full-{os.getpid()}-{each}" for each in range(3)]
    try:
        status = probe.start(ProbeOptions({"cgroups_limit": 1}), lambda _: None)
        assert status.state == "attached"
        for group in groups:
            group.mkdir()
            subprocess.run(["sh", "-c", f"echo $$ > {group}/cgroup.procs; /bin/true"], check=True)
        assert dict(probe.produced().lost)["", "map_full"] >= 2
    finally:
        probe.stop()
        for group in groups:
            group.rmdir()


def test_a_probe_that_never_started_answers_everything() -> None:
    probe = ProcessProbe()
    probe.poll()
    probe.collect()
    assert probe.produced().produced == ()
    assert probe.status().state == "off"
    probe.stop()
