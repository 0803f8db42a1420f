"""The sampler on this kernel, on a program whose share is known."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from engine.readings import Count, Level, Process
from probes.bpf.attachment import attach_clock
from probes.bpf.errors import UnavailableError
from probes.budget.sampled import BOUND, SECONDS, Sampled
from probes.budget.shares import cpu_seconds
from probes.elf.image import Image
from probes.functions.function import Function
from probes.functions.places import find_places
from probes.libraries.maps import LibraryNames, identify
from probes.sampling.addresses import Span, regions
from probes.sampling.sampler import HERTZ, Sampler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Spinner:
    """The program while it runs."""

    def __init__(self, path: Path, share: int) -> None:
        self.child = subprocess.Popen([str(path), str(share)], stdout=subprocess.PIPE)
        assert self.child.stdout is not None
        self.child.stdout.readline()
        found = identify(self.child.pid)
        assert found is not None
        self.process: Process = found
        (self.mapped,) = LibraryNames("libhot.so").mapped_by(self.child.pid)
        self.path = path

    def spans(self, name: str) -> list[Span]:
        image = Image(str(self.path.with_name("libhot.so")))
        with image:
            found = find_places(image, Function(name, "libhot.so", (name,), "enter", "leave"))
        return [Span(self.mapped.key, place.entry, place.size) for place in found.symbols]

    def run_for(self, cpu: float) -> None:
        """Wait until it has used so many CPU seconds."""
        begin = cpu_seconds(self.process)
        while (cpu_seconds(self.process) or 0.0) - (begin or 0.0) < cpu:
            time.sleep(0.1)

    def end(self) -> None:
        self.child.kill()
        self.child.communicate()


@pytest.fixture
def spinning(spinner: Path) -> Iterator[Spinner]:
    started = Spinner(spinner, 30)
    yield started
    started.end()


@pytest.fixture
def sampler() -> Sampler:
    return Sampler()


def told(sampled: Sampled, metric: str) -> dict[str, float]:
    readings = [each for each in sampled.readings() if isinstance(each, Count | Level)]
    return {
        dict(each.labels)["function"]: each.delta if isinstance(each, Count) else each.value
        for each in readings
        if each.metric == metric
    }


@pytest.mark.each_kernel
@pytest.mark.root
def test_the_time_in_a_function_is_within_its_bound_of_what_the_program_spends(
    spinning: Spinner, sampler: Sampler
) -> None:
    sampled = Sampled("demo", spinning.spans, cpu_seconds, sampler)
    try:
        for name in ("hot", "cool"):
            assert sampled.can(name)
            sampled.begin(name)
        sampled.step([spinning.process])
        begin = cpu_seconds(spinning.process)
        spinning.run_for(2.0)
        (own,) = sampled.step([spinning.process]).values()
        used = (cpu_seconds(spinning.process) or 0.0) - (begin or 0.0)
        readings = list(sampled.readings())
    finally:
        sampled.close()
    seconds = {dict(e.labels)["function"]: e.delta for e in readings if isinstance(e, Count)}
    bounds = {
        dict(e.labels)["function"]: e.value
        for e in readings
        if isinstance(e, Level) and e.metric == BOUND
    }
    # A tenth of a second of slack: when it was read, and what the program does besides.
    assert abs(seconds["hot"] - 0.3 * used) <= bounds["hot"] + 0.1 * used
    assert abs(seconds["hot"] + seconds["cool"] - used) <= bounds["cool"] + 0.1 * used
    assert 0 < bounds["hot"] < 0.3 * used
    # The clock's own program: microseconds, 99 times a second.
    assert 0 < own < 0.01


@pytest.mark.root
def test_what_nobody_asks_for_is_not_counted_and_ends_with_the_last_that_is(
    spinning: Spinner, sampler: Sampler
) -> None:
    places = regions(spinning.process.pid, spinning.spans("hot"))
    other = Process(spinning.process.pid + 1, 1)
    assert sampler.watch(spinning.process, "hot", places)
    assert sampler.counts(other, "hot") == (0, 0)
    assert not sampler.watch(other, "hot", [])
    spinning.run_for(0.5)
    inside, samples = sampler.counts(spinning.process, "hot")
    assert 0 < inside <= samples <= 3 * HERTZ
    assert [each.metric for each in sampler.levels()] == [
        "stallwatch_sampler_up", "stallwatch_sampler_overhead_ratio"
    ]  # fmt: skip
    sampler.forget(spinning.process, "hot")
    assert sampler.counts(spinning.process, "hot") == (0, 0)
    assert list(sampler.levels()) == []


@pytest.mark.root
def test_a_process_of_more_functions_than_fit_is_not_watched_for_the_rest(
    spinning: Spinner, sampler: Sampler
) -> None:
    places = regions(spinning.process.pid, spinning.spans("hot"))
    try:
        watched = [sampler.watch(spinning.process, number, places) for number in range(18)]
    finally:
        for number in range(18):
            sampler.forget(spinning.process, number)
    assert watched == [True] * 16 + [False] * 2


@pytest.mark.root
def test_a_process_that_the_kernel_has_no_room_for_takes_no_room_here(
    spinning: Spinner, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = regions(spinning.process.pid, spinning.spans("hot"))
    with monkeypatch.context() as full:
        full.setattr(sampler, "_write", lambda *_: False)
        assert not any(sampler.watch(spinning.process, "hot", places) for _ in range(5000))
    assert sampler.watch(spinning.process, "hot", places)
    sampler.forget(spinning.process, "hot")


@pytest.mark.root
def test_the_end_of_a_process_is_not_that_of_the_next_one_with_its_pid(
    spinning: Spinner, sampler: Sampler
) -> None:
    places = regions(spinning.process.pid, spinning.spans("hot"))
    before = Process(spinning.process.pid, spinning.process.start_ticks - 1)
    try:
        assert sampler.watch(before, "hot", places)
        assert sampler.watch(spinning.process, "hot", places)
        sampler.forget(before, "hot")
        _, begin = sampler.counts(spinning.process, "hot")
        spinning.run_for(0.5)
        assert sampler.counts(spinning.process, "hot")[1] > begin
    finally:
        sampler.forget(spinning.process, "hot")
    assert list(sampler.levels()) == []


@pytest.mark.root
def test_a_clock_that_was_asked_for_and_has_nothing_to_watch_ends(sampler: Sampler) -> None:
    sampled = Sampled("demo", lambda _: [Span(None, 0, 8)], lambda _: 1.0, sampler)  # type: ignore[arg-type]
    assert sampled.can("hot")
    sampled.begin("hot")
    sampled.end("hot")
    assert list(sampler.levels()) == []


def test_where_perf_events_are_refused_it_says_why_and_is_asked_once(
    sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def refuse(*_: Any) -> None:
        asked.append(1)
        raise UnavailableError("no_clock", "no clock of a CPU: Permission denied")

    monkeypatch.setattr("probes.sampling.sampler.load", refuse)
    sampled = Sampled("demo", lambda _: [Span(None, 0, 8)], lambda _: 1.0, sampler)  # type: ignore[arg-type]
    assert not sampled.can("hot")
    assert not sampled.can("hot")
    assert len(asked) == 1
    (level,) = sampled.readings()
    assert isinstance(level, Level)
    assert (level.metric, level.value, level.labels) == (
        "stallwatch_sampler_up", 0.0, (("reason", "no_clock"),)
    )  # fmt: skip


def test_a_function_whose_size_is_not_known_cannot_be_sampled(sampler: Sampler) -> None:
    sampled = Sampled("demo", lambda _: [], lambda _: 1.0, sampler)
    assert not sampled.can("hot")
    assert SECONDS.endswith("_total")


@pytest.mark.parametrize(("code", "rest"), [(errno.ENODEV, True), (errno.EACCES, False)])
def test_a_cpu_that_is_gone_by_now_has_no_clock_and_one_that_is_refused_leaves_none_to_any(
    code: int, rest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []

    def open_clock(cpu: int, _: int) -> int:
        if cpu:
            raise OSError(code, "refused")
        opened.append(os.open(os.devnull, os.O_RDONLY))
        return opened[-1]

    monkeypatch.setattr("probes.bpf.syscall.online_cpus", lambda: [0, 1])
    monkeypatch.setattr("probes.bpf.syscall.perf_clock_open", open_clock)
    monkeypatch.setattr("probes.bpf.syscall.perf_event_attach", lambda *_: None)
    if rest:
        (only,) = attach_clock(-1, HERTZ)
        only.detach()
    else:
        with pytest.raises(UnavailableError, match="no clock of a CPU"):
            attach_clock(-1, HERTZ)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])
