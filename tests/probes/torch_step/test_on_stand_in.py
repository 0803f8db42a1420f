from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.config.quantities import Interval
from engine.readings import Count, Gone, Level, ProbeOptions, Reading, Watched
from probes.libraries.maps import identify
from probes.torch_step.probe import TorchStepProbe, pid_of
from tests.probes.functions.test_calls import REUSE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Flushes follow each other within moments here, so that a rate means nothing to a budget.
EXACT: dict[str, object] = {"budget": {"enabled": False}}
ROOT = Path(__file__).resolve().parents[3]
# Of a step: entry and exit of the reducer, and of the work that it waits for.
HITS = 4


class Program:
    """A running stand-in."""

    def __init__(self, path: Path, *prefix: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen([*prefix, str(path)], text=True, **pipes)  # type: ignore[call-overload]
        self.pid = int(self._line())

    def _line(self) -> str:
        return str(self.process.stdout.readline()).strip()

    def do(self, word: str, first: int = 0, second: int = 0) -> str:
        self.process.stdin.write(f"{word} {first} {second}\n")
        self.process.stdin.flush()
        return self._line()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Driver:
    """Does with the probe what the agent does."""

    def __init__(self, settings: dict[str, object] = EXACT) -> None:
        self.probe = TorchStepProbe()
        self.readings: list[Reading] = []
        self.status = self.probe.start(ProbeOptions(settings), self.readings.append)

    def flush(self) -> list[Reading]:
        self.probe.poll()
        while self.probe._sites.pending:
            self.probe.poll()
        self.probe.collect()
        readings = self.readings.copy()
        self.readings.clear()
        return readings

    def produced(self) -> int:
        return dict(self.probe.produced().produced)[""]

    def attached(self, folder: Path) -> int:
        """Files below a folder that carry probes; others may run PyTorch on this machine too."""
        files = self.probe._sites._files.values()
        return sum(
            any(site.attachments for site in file.sites.values())
            for file in files
            if file.path.startswith(f"{folder}/")
        )


@pytest.fixture(scope="module")
def running() -> Iterator[Driver]:
    """One for all: compiling takes a second and more."""
    driver = Driver()
    yield driver
    driver.probe.stop()


@pytest.fixture
def driver(running: Driver) -> Driver:
    running.flush()
    # A file that is attached anew while its old probes are let go is hit twice for a moment.
    assert running.probe._sites._detacher.drain(30)
    return running


@pytest.fixture
def start(stand_in: Path) -> Iterator[Callable[..., Program]]:
    programs: list[Program] = []

    def run(*prefix: str) -> Program:
        programs.append(Program(stand_in, *prefix))
        return programs[-1]

    yield run
    for program in programs:
        program.end()


def total(readings: list[Reading], metric: str, pid: int) -> float:
    counts = [each for each in readings if isinstance(each, Count) and each.metric == metric]
    return sum(each.delta for each in counts if each.process and each.process.pid == pid)


def level(readings: list[Reading], metric: str, pid: int) -> float | None:
    levels = [each for each in readings if isinstance(each, Level) and each.metric == metric]
    values = [each.value for each in levels if each.process and each.process.pid == pid]
    assert len(values) <= 1
    return values[0] if values else None


def weight(readings: list[Reading], pid: int) -> int:
    weighed = [each for each in readings if isinstance(each, Count | Level) and each.process]
    return sum(each.weight for each in weighed if each.process and each.process.pid == pid)


@pytest.mark.each_kernel
@pytest.mark.root
def test_every_step_and_its_wait_are_counted(driver: Driver, start: Callable[..., Program]) -> None:
    program = start()
    watched = [each for each in driver.flush() if isinstance(each, Watched)]
    assert program.pid in [each.process.pid for each in watched]
    program.do("steps", 20, 5000)
    readings = driver.flush()
    assert total(readings, "steps_total", program.pid) == 20
    assert total(readings, "comm_wait_seconds_total", program.pid) > 20 * 0.005
    ratio = level(readings, "step_comm_wait_ratio", program.pid)
    assert ratio is not None
    assert 0.5 < ratio <= 1
    assert weight(readings, program.pid) == HITS * 20


@pytest.mark.root
def test_a_flush_without_a_step_has_the_wait_ratio_and_nothing_of_steps(
    driver: Driver, start: Callable[..., Program]
) -> None:
    program = start()
    driver.flush()
    readings = driver.flush()
    assert level(readings, "comm_wait_ratio", program.pid) == 0
    assert level(readings, "step_time_seconds", program.pid) is None
    assert level(readings, "step_comm_wait_ratio", program.pid) is None


@pytest.mark.each_kernel
@pytest.mark.root
def test_an_exception_passes_through_the_probes_and_the_next_entry_closes_its_wait(
    driver: Driver, start: Callable[..., Program]
) -> None:
    program = start()
    driver.flush()
    program.do("steps", 1)
    assert program.do("throw") == "caught 1, done"
    program.do("steps", 3)
    readings = driver.flush()
    assert total(readings, "steps_total", program.pid) == 4
    assert weight(readings, program.pid) == HITS + (HITS - 1) + 3 * HITS
    time.sleep(0.2)
    assert level(driver.flush(), "comm_wait_ratio", program.pid) == 0


@pytest.mark.root
def test_a_hang_is_a_ratio_of_one_at_every_flush(
    driver: Driver, start: Callable[..., Program]
) -> None:
    program = start()
    driver.flush()
    program.do("hang")
    driver.flush()
    for _ in range(2):
        time.sleep(0.2)
        ratio = level(driver.flush(), "comm_wait_ratio", program.pid)
        assert ratio is not None
        assert 0.9 <= ratio <= 1


@pytest.mark.root
def test_threads_that_came_and_went_are_counted_and_their_records_removed(
    driver: Driver, start: Callable[..., Program]
) -> None:
    program = start()
    driver.flush()
    program.do("threads", 8, 1000)
    readings = driver.flush()
    assert total(readings, "steps_total", program.pid) == 80
    assert weight(readings, program.pid) == HITS * 80
    ratio = level(readings, "comm_wait_ratio", program.pid)
    assert ratio is not None
    assert ratio <= 1
    assert program.pid not in map(pid_of, driver.probe._read())


@pytest.mark.each_kernel
@pytest.mark.root
def test_a_forked_process_is_known_from_its_first_step_and_keeps_the_file_attached(
    driver: Driver, start: Callable[..., Program], stand_in: Path
) -> None:
    program = start()
    driver.flush()
    child = int(program.do("fork", 7).partition(",")[0])
    try:
        readings = driver.flush()
        assert total(readings, "steps_total", child) == 7
        program.end()
        readings = driver.flush()
        assert program.pid in [each.process.pid for each in readings if isinstance(each, Gone)]
        assert driver.attached(stand_in.parent) == 1
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.root
def test_what_a_process_did_in_its_last_moments_is_counted_before_it_is_gone(
    driver: Driver, start: Callable[..., Program], stand_in: Path
) -> None:
    program = start()
    driver.flush()
    program.do("steps", 5)
    program.end()
    readings = driver.flush()
    assert total(readings, "steps_total", program.pid) == 5
    own = [each for each in readings if each.process and each.process.pid == program.pid]
    assert isinstance(own[-1], Gone)
    assert weight(readings, program.pid) == HITS * 5
    assert driver.attached(stand_in.parent) == 0


@pytest.mark.each_kernel
@pytest.mark.root
def test_all_that_the_kernel_produced_is_consumed_exactly_once(
    driver: Driver, start: Callable[..., Program]
) -> None:
    program = start()
    began = driver.produced()
    driver.flush()
    consumed, late = 0, driver.produced()
    before = after = late
    for _ in range(3):
        program.do("threads", 4)
        driver.probe.poll()
        before = driver.produced()
        readings = driver.flush()
        counts = [each for each in readings if isinstance(each, Count) and not each.stream]
        consumed += sum(each.weight for each in counts)
        after = driver.produced()
    # Equal when nobody else runs PyTorch meanwhile.
    assert 0 < before - late <= consumed <= after - began


@pytest.mark.root
def test_a_process_in_another_mount_namespace_is_found_though_its_path_means_nothing_here(
    driver: Driver, start: Callable[..., Program], stand_in: Path
) -> None:
    folder = stand_in.parent
    script = f'mount -t tmpfs none /mnt && cp {folder}/* /mnt && mount --bind /mnt {folder} && "$0"'
    program = start("unshare", "-m", "sh", "-c", script)
    driver.flush()
    program.do("steps", 9)
    assert total(driver.flush(), "steps_total", program.pid) == 9


@pytest.mark.root
def test_two_files_of_one_name_are_two_attachments(
    driver: Driver, start: Callable[..., Program], stand_in: Path
) -> None:
    script = f"mount -t tmpfs none /mnt && cp {stand_in.parent}/* /mnt"
    script += f" && mount --bind /mnt {stand_in.parent} && exec $0"
    programs = [start(), start("unshare", "-m", "sh", "-c", script)]
    driver.flush()
    assert driver.attached(stand_in.parent) == 2
    for program in programs:
        program.do("steps", 3)
    readings = driver.flush()
    assert [total(readings, "steps_total", program.pid) for program in programs] == [3, 3]


def by_operation(readings: list[Reading], pid: int) -> dict[str, float]:
    counts = [e for e in readings if isinstance(e, Count) and e.metric == "comm_wait_seconds_total"]
    own = [each for each in counts if each.process and each.process.pid == pid]
    return {dict(each.labels)["op"]: each.delta for each in own}


@pytest.mark.root
def test_a_wait_inside_a_wait_counts_once_and_as_the_outer_one(
    driver: Driver, start: Callable[..., Program]
) -> None:
    program = start()
    driver.flush()
    began = time.monotonic()
    program.do("steps", 20, 10_000)
    program.do("waits", 20, 5000)
    took = time.monotonic() - began
    waits = by_operation(driver.flush(), program.pid)
    assert waits.keys() == {"finalize_backward", "wait"}
    assert waits["finalize_backward"] > 20 * 0.01
    assert waits["wait"] > 20 * 0.005
    assert sum(waits.values()) <= took


@pytest.mark.root
def test_a_wait_left_by_an_exception_ends_with_the_next_one_at_its_place(
    driver: Driver, start: Callable[..., Program]
) -> None:
    program = start()
    driver.flush()
    abandoned = driver.probe._accounts.abandoned_total
    assert program.do("throw_wait") == "caught 1, done"
    program.do("waits", 3, 1000)
    readings = driver.flush()
    assert by_operation(readings, program.pid)["wait"] > 0.003
    assert driver.probe._accounts.abandoned_total == abandoned + 1
    time.sleep(0.05)
    assert level(driver.flush(), "comm_wait_ratio", program.pid) == 0


@pytest.mark.root
def test_backward_passes_inside_one_another_are_one(
    driver: Driver, start: Callable[..., Program]
) -> None:
    program = start()
    driver.flush()
    program.do("backwards", 5, 0)
    program.do("backwards", 4, 3)
    assert program.do("throw_backward") == "caught 1, done"
    program.do("backwards", 2, 1)
    readings = driver.flush()
    assert total(readings, "backward_passes_total", program.pid) == 5 + 4 + 1 + 2
    assert total(readings, "steps_total", program.pid) == 0


@pytest.mark.root
def test_steps_are_counted_from_the_most_certain_mark_and_never_twice(
    driver: Driver, start: Callable[..., Program]
) -> None:
    program = start()
    driver.flush()
    program.do("range:Optimizer.step#SGD.step", 6, 1000)
    program.do("range:Optimizer.zero_grad#SGD.zero_grad", 6, 1000)
    readings = driver.flush()
    assert total(readings, "steps_total", program.pid) == 6
    assert sources(readings, program.pid) == ["optimizer"]
    assert level(readings, "step_time_seconds", program.pid) == pytest.approx(0.001, rel=3)
    for _ in range(5):
        program.do("steps", 1, 1000)
        program.do("range:Optimizer.step#SGD.step", 1, 1000)
    readings = driver.flush()
    assert total(readings, "steps_total", program.pid) == 5
    assert total(readings, "optimizer_steps_total", program.pid) == 5
    assert sources(readings, program.pid) == ["ddp"]
    program.do("steps", 4)
    program.do("range:stallwatch.step", 2, 1000)
    readings = driver.flush()
    assert total(readings, "steps_total", program.pid) == 2
    assert sources(readings, program.pid) == ["marker"]


def sources(readings: list[Reading], pid: int) -> list[str]:
    levels = [each for each in readings if isinstance(each, Level) and each.metric == "step_source"]
    own = [each for each in levels if each.process and each.process.pid == pid]
    return [dict(each.labels)["source"] for each in own]


@pytest.mark.root
def test_without_any_mark_the_period_is_found_in_the_collectives(
    driver: Driver, start: Callable[..., Program]
) -> None:
    program = start()
    driver.flush()
    program.do("collectives:04411", 30, 2000)
    readings = driver.flush()
    seconds = level(readings, "step_period_seconds", program.pid)
    sure = level(readings, "step_period_confidence", program.pid)
    assert seconds is not None
    assert sure is not None
    assert 0.002 < seconds < 0.02
    assert 0.5 < sure <= 1
    assert total(readings, "gloo_calls_total", program.pid) == 150
    assert total(readings, "steps_total", program.pid) == 0
    # Nothing new was issued, so nothing is said.
    assert level(driver.flush(), "step_period_seconds", program.pid) is None
    program.do("range:stallwatch.step", 2, 1000)
    program.do("collectives:04411", 30, 1000)
    driver.flush()
    program.do("collectives:04411", 30, 1000)
    assert level(driver.flush(), "step_period_seconds", program.pid) is None


@pytest.mark.root
def test_a_library_without_the_function_degrades_the_probe_with_a_mend(
    driver: Driver, start: Callable[..., Program], tmp_path: Path
) -> None:
    other = tmp_path / "libtorch_cpu.so"
    source = tmp_path / "empty.c"
    source.write_text("int nothing;")
    subprocess.run(["gcc", "-shared", "-o", str(other), str(source)], check=True)
    code = f"import ctypes, sys; ctypes.CDLL({str(other)!r}); print('up', flush=True)"
    code += "; sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as user:  # type: ignore[call-overload]
        user.stdout.readline()
        driver.flush()
        status = driver.probe.status()
        user.stdin.close()
    assert (status.state, status.reason) == ("degraded", "symbol_missing")
    assert status.mend


@pytest.mark.root
def test_where_exits_cannot_be_found_steps_are_counted_and_no_wait_is_claimed(
    driver: Driver, opaque_stand_in: Path
) -> None:
    program = Program(opaque_stand_in)
    try:
        driver.flush()
        status = driver.probe.status()
        program.do("steps", 6, 1000)
        readings = driver.flush()
    finally:
        program.end()
    assert (status.state, status.reason) == ("degraded", "no_exits")
    assert total(readings, "steps_total", program.pid) == 6
    assert level(readings, "comm_wait_ratio", program.pid) is None
    time_ = level(readings, "step_time_seconds", program.pid)
    assert time_ is not None
    assert time_ > 0.001


def modes(readings: list[Reading]) -> dict[str, str]:
    told = [e for e in readings if isinstance(e, Level) and e.metric == "stallwatch_probe_mode"]
    return {dict(each.labels)["function"]: dict(each.labels)["mode"] for each in told}


@pytest.mark.root
def test_ranges_that_cost_too_much_are_let_go_and_steps_of_ddp_are_told_all_the_same(
    start: Callable[..., Program],
) -> None:
    driver = Driver({"budget": {"ratio": 0.004}})
    try:
        program = start()
        driver.flush()
        now: dict[str, str] = {}
        # On a busy machine a rank makes few calls a second, and more flushes are needed.
        for _ in range(20):
            program.do("range:forward", 50_000)
            time.sleep(0.6)  # flushes that follow each other sooner tell nothing of a rate
            now = modes(driver.flush())
            if now["ranges"] != "full":
                break
        # Of the other groups too, those that jobs beside this test are in may be let go.
        assert (now["ranges"], now["reducer"]) == ("detached", "full")
        status = driver.probe.status()
        assert (status.state, status.reason) == ("degraded", "over_budget")
        assert "ranges" in status.detail
        program.do("steps", 3, 1000)
        program.do("range:Optimizer.step#SGD.step", 5, 10)
        readings = driver.flush()
    finally:
        driver.probe.stop()
    assert total(readings, "steps_total", program.pid) == 3
    assert total(readings, "optimizer_steps_total", program.pid) == 0


@pytest.mark.root
def test_waits_that_cost_too_much_are_told_by_slices_and_stand_between_them(
    start: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Flushes are some 0.7 s apart here.
    monkeypatch.setattr("probes.torch_step.budget.LEAST_SLICE", Interval(2_000))
    driver = Driver({"budget": {"ratio": 0.002, "longest_period": "1m"}})
    told: list[tuple[bool, float | None]] = []
    try:
        program = start()
        # The share of the last whole interval stands until the first slice: let it be a busy one.
        driver.flush()
        program.do("waits", 200, 200)
        driver.flush()
        before = driver.produced()
        for _ in range(120):
            program.do("waits", 2_000, 200)
            time.sleep(0.1)
            readings, hits = driver.flush(), driver.produced()
            if modes(readings)["waits"] == "duty":
                told.append((hits > before, level(readings, "comm_wait_ratio", program.pid)))
            before = hits
            shown = [ratio for _, ratio in told if ratio is not None]
            if len(set(shown)) > 1 and told[-1] == (False, shown[-1]):
                break
        status = driver.probe.status()
    finally:
        driver.probe.stop()
    # Another slice told another share, and it stood when nothing was watched.
    assert len(set(shown)) > 1
    assert told[-1] == (False, shown[-1])
    # Waits of 200 us and more, one after the other, for most of a flush.
    assert all(0.4 < ratio <= 1 for ratio in shown)
    # From the first share on there is one in each flush.
    first = [ratio is not None for _, ratio in told].index(True)
    assert len(shown) == len(told) - first
    assert (status.reason, "waits (duty)" in status.detail) == ("over_budget", True)


@pytest.mark.root
def test_waits_are_not_told_when_no_slice_is_cheap_enough(start: Callable[..., Program]) -> None:
    driver = Driver({"budget": {"ratio": 0.001}})
    try:
        program = start()
        driver.flush()
        for _ in range(20):
            program.do("waits", 20_000, 0)
            time.sleep(0.6)
            readings = driver.flush()
            if modes(readings)["waits"] != "full":
                break
        assert modes(readings)["waits"] == "detached"
        readings = driver.flush()
    finally:
        driver.probe.stop()
    assert level(readings, "comm_wait_ratio", program.pid) is None


@pytest.mark.each_kernel
@pytest.mark.root
def test_a_pid_that_is_used_again_between_two_flushes_is_another_process(
    driver: Driver, start: Callable[..., Program], stand_in: Path
) -> None:
    first = start()
    driver.flush()
    was = identify(first.pid)
    first.do("steps", 30, 0)
    first.do("collectives:04", 5, 0)
    first.end()
    second = start(sys.executable, "-c", REUSE, str(first.pid))
    if second.pid < 0:
        pytest.skip(f"clone3 with set_tid is refused: {os.strerror(-second.pid)}")
    try:
        assert second.pid == first.pid
        second.do("steps", 7, 0)
        second.do("collectives:04", 2, 0)
        readings = driver.flush()
        now = identify(second.pid)
        assert was is not None
        assert now not in {was, None}
        told: Counter[tuple[str, object]] = Counter()
        for each in readings:
            if isinstance(each, Count) and each.process in {was, now}:
                told[each.metric, each.process] += int(each.delta)
        assert told["steps_total", was] == 30
        assert told["steps_total", now] == 7
        assert told["gloo_calls_total", was] == 10
        assert told["gloo_calls_total", now] == 4
        # The second one's waits are its own, and nothing of the first one hangs on.
        second.do("steps", 3, 0)
        assert total(driver.flush(), "steps_total", second.pid) == 3
    finally:
        os.kill(second.pid, signal.SIGKILL)
