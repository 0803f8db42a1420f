"""Profiler plugins: their tables in their files, and the waits that their events tell."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from probes.elf.image import Image
from probes.nccl.plugin import read_plugin
from tests.probes.nccl.building import build_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from probes.nccl.plugins import PluginFile
    from tests.probes.job import Job
    from tests.probes.nccl.driving import Driver

FLOAT, MS = 7, 1000


@pytest.mark.parametrize("version", [3, 4, 5, 6, 7])
def test_the_functions_of_a_table_are_found_in_the_file(version: int, tmp_path: Path) -> None:
    path = build_plugin(tmp_path, version)
    with Image(str(path)) as image:
        plugin = read_plugin(image)
    assert plugin is not None
    assert (plugin.versions, plugin.reason) == ((version,), "")
    nm = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
    addresses = {
        line.split()[2]: int(line.split()[0], 16) for line in nm.splitlines() if line[0] != " "
    }
    start, stop = plugin.hooks
    assert start.address == addresses["start_v4" if version == 4 else "start"]
    assert stop.address == addresses["stop"]
    assert start.program == {3: "start_event_v3", 4: "start_event_v4"}.get(
        version, "start_event_v5"
    )
    assert start.exits


@pytest.mark.parametrize(
    "flags", [("-Wl,-z,pack-relative-relocs",), ("-Wl,-z,nopack-relative-relocs",)]
)
def test_packed_relocations_are_read_too(flags: tuple[str, ...], tmp_path: Path) -> None:
    plain = build_plugin(tmp_path, 5, "plain.so")
    try:
        packed = build_plugin(tmp_path, 5, "packed.so", *flags)
    except subprocess.CalledProcessError:
        pytest.skip("this linker does not pack relocations")
    found = []
    for path in (plain, packed):
        with Image(str(path)) as image:
            plugin = read_plugin(image)
        assert plugin is not None
        found.append([(hook.program, bool(hook.exits)) for hook in plugin.hooks])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("version", "reason"),
    [(1, "profiler_no_kernels"), (2, "profiler_no_kernels"), (8, "profiler_version")],
)
def test_a_table_that_is_too_old_or_too_new_says_so(
    version: int, reason: str, tmp_path: Path
) -> None:
    with Image(str(build_plugin(tmp_path, version))) as image:
        plugin = read_plugin(image)
    assert plugin is not None
    assert (plugin.reason, plugin.hooks) == (reason, ())
    assert str(version) in plugin.detail


def test_another_library_is_no_plugin(stand_in: Path) -> None:
    with Image(str(stand_in.with_name("libnccl.so.2"))) as image:
        assert read_plugin(image) is None


@pytest.mark.root
@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("name", ["libnccl-profiler-own.so", "libodd.so"])
def test_only_the_time_in_which_a_kernel_runs_is_a_wait(
    driver: Driver, start: Callable[..., Job], tmp_path: Path, version: int, name: str
) -> None:
    plugin = build_plugin(tmp_path, version, name)
    job = start(NCCL_PROFILER_PLUGIN=str(plugin))
    job.do("init", 0, 0, 2, 1)
    driver.attach()
    driver.attach()
    job.do("kernel_us", 100 * MS)
    job.do("call", 0, 10, FLOAT, 1)
    # Compute that was queued before makes the host wait longer than the collective runs.
    job.do("sync", 400 * MS)
    driver.flush()
    # The kernel begins a moment before the host waits.
    waited = driver.total("comm_wait_seconds_total", job.pid)
    assert 0.03 < waited < 0.38
    assert waited == driver.total("comm_wait_seconds_total", job.pid, op="AllReduce")
    assert 0.1 <= driver.total("nccl_kernel_seconds_total", job.pid, op="AllReduce") < 0.38
    assert driver.level("stallwatch_probe_source", job.pid, source="profiler") == [1]
    # What runs while nobody waits is in flight, not waited for.
    job.do("every", 0, 10, FLOAT)
    job.do("kernels")
    driver.flush()
    assert driver.total("comm_wait_seconds_total", job.pid) == waited
    kernels = driver.total("nccl_kernel_seconds_total", job.pid)
    assert kernels >= 0.1 + 12 * 0.1
    for op in ("Broadcast", "Send", "Recv", "ReduceScatter", "AlltoAll", "Scatter"):
        assert driver.total("nccl_kernel_seconds_total", job.pid, op=op) >= 0.1


@pytest.mark.root
@pytest.mark.parametrize("name", ["libnccl-profiler-own.so", "libodd.so"])
def test_a_plugin_is_let_go_of_with_its_last_user(
    driver: Driver, start: Callable[..., Job], tmp_path: Path, name: str
) -> None:
    plugin = build_plugin(tmp_path, 5, name)
    jobs = [start(NCCL_PROFILER_PLUGIN=str(plugin)) for _ in range(2)]

    def followed() -> bool:
        files = driver.running.plugins._files.values()
        return any(each.file.path.endswith(name) for each in files)

    for job in jobs:
        job.do("init", 0, 0, 2, 1)
    driver.attach()
    driver.attach()
    for job, after in zip(jobs, (True, False), strict=True):
        assert followed()
        job.process.kill()
        job.process.wait()
        driver.flush()
        assert followed() is after


@pytest.mark.root
def test_a_kernel_that_does_not_end_is_an_open_wait_until_the_communicator_is_aborted(
    driver: Driver, start: Callable[..., Job], tmp_path: Path
) -> None:
    plugin = build_plugin(tmp_path, 5)
    job = start(NCCL_PROFILER_PLUGIN=str(plugin))
    job.do("init", 0, 0, 2, 1)
    driver.attach()
    driver.attach()
    job.do("kernel_us", 900_000 * MS)
    job.do("call", 0, 10, FLOAT, 1)
    job.do("hang")
    driver.flush()
    job.do("sync", 200 * MS)
    driver.flush()
    (ratio,) = driver.level("comm_wait_ratio", job.pid)
    assert ratio > 0.8
    job.do("abort", 0)
    driver.flush()
    job.do("sync", 200 * MS)
    driver.flush()
    assert driver.level("comm_wait_ratio", job.pid) == [0]


HOLDER = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('up', flush=True); sys.stdin.read()"


@contextmanager
def mapped(plugin: Path) -> Iterator[None]:
    """A process has loaded it."""
    command = [sys.executable, "-c", HOLDER, str(plugin)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield
        holder.kill()


def found(driver: Driver, plugin: Path) -> PluginFile:
    """What the probe has of a plugin, once it is settled."""
    driver.attach()
    assert driver.running.plugins._detacher.drain(30)
    driver.attach()
    files = driver.running.plugins._files.values()
    return next(each for each in files if each.file.path == str(plugin))


@pytest.mark.root
def test_a_plugin_that_is_overwritten_in_place_loses_its_probes_at_once_and_is_read_again(
    driver: Driver, tmp_path: Path
) -> None:
    plugin, other = build_plugin(tmp_path, 5), build_plugin(tmp_path, 4, "other.so")
    with mapped(plugin):
        first = found(driver, plugin)
        assert first.attachments
        held = first.attachments
        with plugin.open("r+b") as file:
            file.write(other.read_bytes())
        # Without a poll.
        deadline = time.monotonic() + 30
        while not all(each.detached for each in held):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        second = found(driver, plugin)
        assert second.plugin is not None
        assert second.plugin.versions == (4,)
        assert second.attachments
        plugin.write_bytes(b"no library any more" * 9)
        third = found(driver, plugin)
        assert (third.reason, third.attachments) == ("unreadable_library", [])
        # It was half a plugin: the rest of a copy comes later.
        plugin.write_bytes(other.read_bytes())
        assert found(driver, plugin).attachments


@pytest.mark.root
def test_a_table_that_points_into_an_instruction_is_not_followed(
    driver: Driver, tmp_path: Path
) -> None:
    plugin = build_plugin(tmp_path, 5, "libnccl-profiler.so", "-DSHIFT=1")
    with mapped(plugin):
        found_ = found(driver, plugin)
        assert (found_.reason, found_.attachments) == ("not_a_function", [])
    driver.flush()


@pytest.mark.root
def test_a_plugin_that_cannot_be_read_degrades_the_probe(
    driver: Driver, start: Callable[..., Job], tmp_path: Path
) -> None:
    plugin = build_plugin(tmp_path, 8)
    job = start("env", f"LD_PRELOAD={plugin}")
    driver.attach()
    status = driver.probe.status()
    assert (status.state, status.reason) == ("degraded", "profiler_version")
    job.end()
    driver.flush()
    driver.flush()
