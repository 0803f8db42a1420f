"""On a stand-in: the library is empty and the device is a virtual terminal with another name.

A terminal takes calls that are fast, that fail, and that wait (VT_WAITACTIVE of ioctl_vt(2)).
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING, TypeVar

import pytest

from engine.readings import Count, Event, Level, ProbeOptions
from probes.bpf import capabilities
from probes.gpu_driver.probe import CALLS, FAILURES, OPEN, SECONDS, GpuDriverProbe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.readings import Reading

T = TypeVar("T", Event, Level)
FIRST_TERMINAL = os.makedev(4, 0)
JOB = """
import ctypes, fcntl, os, signal, sys, threading, time
library, device, fast, bad = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
ctypes.CDLL(library)
print("ready", flush=True)
input()
fd = os.open(device, os.O_RDWR | os.O_NOCTTY)
null = os.open("/dev/null", os.O_RDONLY)
class Late(Exception): pass
def late(*_): raise Late
signal.signal(signal.SIGALRM, late)
began = time.perf_counter()
for _ in range(fast):
    fcntl.ioctl(fd, 0x4B3B, bytearray(8))
for _ in range(bad):
    try: fcntl.ioctl(fd, 0x0001, 0)
    except OSError: pass
for _ in range(3):
    try: fcntl.ioctl(null, 0x0001, 0)
    except OSError: pass
signal.setitimer(signal.ITIMER_REAL, 0.4)
try: fcntl.ioctl(fd, 0x5607, 60)
except Late: pass
print(time.perf_counter() - began, flush=True)
input()
threading.Thread(target=lambda: fcntl.ioctl(fd, 0x5607, 60), daemon=True).start()
print("waits", flush=True)
input()
"""


class Job:
    def __init__(self, library: Path, device: Path, fast: int, bad: int) -> None:
        command = [sys.executable, "-S", "-c", JOB, str(library), str(device), str(fast), str(bad)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        assert self.says() == "ready"

    @property
    def pid(self) -> int:
        return self.process.pid

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def goes_on(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.says()

    def ends(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    made = tmp_path_factory.mktemp("gpu_driver") / "libcuda.so.1"
    command = [compiler, "-shared", "-x", "c", "-o", str(made), os.devnull]
    subprocess.run(command, check=True)
    return made


@pytest.fixture
def device(tmp_path: Path) -> Path:
    made = tmp_path / "nvidia0"
    try:
        os.mknod(made, stat.S_IFCHR | 0o600, FIRST_TERMINAL)
        os.close(os.open(made, os.O_RDWR | os.O_NOCTTY))
    except OSError as error:
        pytest.skip(f"no virtual terminal to stand in for a GPU: {error}")
    return made


@pytest.fixture
def readings() -> list[Reading]:
    return []


@pytest.fixture
def probe(readings: list[Reading], device: Path) -> Iterator[GpuDriverProbe]:
    made = GpuDriverProbe()
    settings: dict[str, object] = {
        "devices": [str(device.parent / "nvidia*")],
        "slow": "200ms",
        "hook": "tracepoint",
        "max_syscall_tax_seconds": 1e-5,  # an emulated kernel takes its time
    }
    status = made.start(ProbeOptions(settings), readings.append)
    assert status.state == "attached", status
    yield made
    made.stop()


def _sum(readings: list[Reading], metric: str, pid: int, device: str) -> float:
    return sum(
        each.delta
        for each in readings
        if isinstance(each, Count)
        and each.metric == metric
        and each.process is not None
        and each.process.pid == pid
        and each.labels == (("device", device),)
    )


def _of(readings: list[Reading], kind: type[T], pid: int) -> list[T]:
    """Readings of one kind and process."""
    return [
        each
        for each in readings
        if isinstance(each, kind) and each.process is not None and each.process.pid == pid
    ]


def _until_followed(probe: GpuDriverProbe, pid: int) -> None:
    for _ in range(100):
        probe.poll()
        if pid in probe._processes:
            return
        time.sleep(0.05)
    raise AssertionError("the process was never found")


@pytest.mark.each_kernel
@pytest.mark.root
def test_calls_failures_and_time_are_counted_by_device_and_slow_ones_are_events(
    probe: GpuDriverProbe, readings: list[Reading], library: Path, device: Path
) -> None:
    job = Job(library, device, fast=500, bad=20)
    try:
        _until_followed(probe, job.pid)
        took = float(job.goes_on())
        produced = dict(probe.produced().produced)[""]
        probe.collect()
        assert _sum(readings, CALLS, job.pid, "nvidia0") == 500 + 20 + 1
        assert _sum(readings, FAILURES, job.pid, "nvidia0") == 20 + 1
        # And what Python asks of its own standard input.
        assert _sum(readings, CALLS, job.pid, "other") >= 3
        assert 0.4 <= _sum(readings, SECONDS, job.pid, "nvidia0") <= took
        (slow,) = _of(readings, Event, job.pid)
        fields = dict(slow.fields)
        assert (fields["lib"], fields["call"], fields["op"]) == ("nvidia0", "ioctl", "0x5607")
        assert 0.4 <= float(fields["seconds"]) <= took
        assert int(fields["result"]) < 0
        consumed = sum(e.weight for e in readings if isinstance(e, Count))
        assert produced <= consumed <= dict(probe.produced().produced)[""]
    finally:
        job.ends()


@pytest.mark.root
def test_a_call_that_does_not_return_shows_its_age_and_ends_with_its_process(
    probe: GpuDriverProbe, readings: list[Reading], library: Path, device: Path
) -> None:
    job = Job(library, device, fast=1, bad=0)
    try:
        _until_followed(probe, job.pid)
        job.goes_on()
        job.goes_on()
        time.sleep(1.0)
        probe.collect()
        ages = [each.value for each in _of(readings, Level, job.pid) if each.metric == OPEN]
        assert 0.5 < max(ages) < 60
    finally:
        job.ends()
    probe.collect()
    assert probe._program is not None
    assert job.pid not in {call.pid for call in probe._program.open_calls()}
    assert job.pid not in {file.pid for file in probe._program.totals()}


@pytest.mark.root
def test_system_calls_pay_only_while_a_process_uses_a_gpu(
    probe: GpuDriverProbe, library: Path, device: Path
) -> None:
    assert probe._program is not None
    if probe._processes:
        pytest.skip("somebody else's process maps libcuda.so")
    assert "no process uses a GPU" in probe.status().detail
    job = Job(library, device, fast=1, bad=0)
    try:
        _until_followed(probe, job.pid)
        assert "for every system call of the node" in probe.status().detail
    finally:
        job.ends()
    probe.poll()
    assert probe._processes or "no process uses a GPU" in probe.status().detail


@pytest.mark.root
def test_what_would_cost_too_much_is_off_and_says_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = iter((100e-9, 400e-9))
    monkeypatch.setattr("probes.gpu_driver.kernel._system_call_seconds", lambda: next(measured))
    probe = GpuDriverProbe()
    status = probe.start(ProbeOptions({"hook": "tracepoint"}), lambda _: None)
    probe.stop()
    assert (status.state, status.reason) == ("off", "too_costly")
    assert "would add 300 ns to every system call of the node; 200 ns are allowed" in status.detail
    assert "max_syscall_tax_seconds" in status.mend


@pytest.mark.root
def test_a_function_that_the_kernel_has_not_is_off_with_its_reason() -> None:
    probe = GpuDriverProbe()
    settings: dict[str, object] = {"hook": "kprobe", "functions": ["no_such_function"]}
    status = probe.start(ProbeOptions(settings), lambda _: None)
    probe.stop()
    assert (status.state, status.reason) == ("off", "no_kprobe")
    assert status.mend


@pytest.mark.each_kernel
@pytest.mark.root
def test_kprobes_see_the_same_calls_where_the_kernel_has_them(library: Path, device: Path) -> None:
    if capabilities.kprobe_pmu() is None:
        pytest.skip("this kernel has no kprobes")
    readings: list[Reading] = []
    probe = GpuDriverProbe()
    settings: dict[str, object] = {"hook": "kprobe", "functions": ["vt_ioctl"], "slow": "200ms"}
    status = probe.start(ProbeOptions(settings), readings.append)
    assert status.state == "attached", status
    job = Job(library, device, fast=500, bad=20)
    try:
        _until_followed(probe, job.pid)
        job.goes_on()
        probe.collect()
        assert _sum(readings, CALLS, job.pid, "vt_ioctl") == 500 + 20 + 1
    finally:
        job.ends()
        probe.stop()


@pytest.mark.root
def test_a_full_table_is_told(library: Path, device: Path) -> None:
    probe = GpuDriverProbe()
    settings: dict[str, object] = {"totals_limit": 1, "hook": "tracepoint"}
    assert probe.start(ProbeOptions(settings), lambda _: None).state == "attached"
    job = Job(library, device, fast=50, bad=0)
    try:
        _until_followed(probe, job.pid)
        job.goes_on()
        assert dict(probe.produced().lost)["", "map_full"] > 0
    finally:
        job.ends()
        probe.stop()


def test_a_probe_that_never_started_answers_everything() -> None:
    probe = GpuDriverProbe()
    probe.poll()
    probe.collect()
    assert probe.produced().produced == ()
    assert probe.status().state == "off"
    probe.stop()
