"""Polling probes and cutting their readings into flushes."""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING

import pytest

from engine.aggregate.queue import FlushMark, ReadingQueue
from engine.doorbell import Doorbell
from engine.pipeline.collector import Collector
from engine.readings import Count, ProbeOptions, ProbeStatus, Produced, Reading

if TYPE_CHECKING:
    from collections.abc import Callable


class CountingProbe:
    """Produces one event per poll."""

    def __init__(self, name: str = "counting", fail_in: str = "") -> None:
        self.name = name
        self.fail_in = fail_in
        self.hits = 0
        self.stopped = 0
        self.emit: Callable[[Reading], None] = lambda reading: None
        self.told: dict[str, object] = {}

    def _maybe_fail(self, where: str) -> None:
        if where == self.fail_in:
            raise RuntimeError(f"{where} broke")

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        self._maybe_fail("start")
        self.emit, self.told = emit, options.settings
        return ProbeStatus(self.name, "attached")

    def poll(self) -> None:
        self._maybe_fail("poll")
        self.hits += 1

    def produced(self) -> Produced:
        return Produced(self.name, (("", self.hits),))

    def collect(self) -> None:
        self._maybe_fail("collect")
        self.emit(Count("hits_total", None, self.hits, weight=self.hits))

    def status(self) -> ProbeStatus:
        return ProbeStatus(self.name, "attached")

    def stop(self) -> None:
        self.stopped += 1


def test_a_mark_follows_the_readings_it_covers_and_carries_what_was_produced_before() -> None:
    probe, queue = CountingProbe(), ReadingQueue(100)
    collector = Collector([probe], queue, 10_000)
    collector._attach(probe)
    probe.poll()
    collector.flush(20_000)
    reading, mark = queue.take(10, 0)
    assert reading == ("counting", Count("hits_total", None, 1, weight=1))
    assert isinstance(mark, FlushMark)
    assert mark.timestamp_ms == 20_000
    assert mark.produced == (Produced("counting", (("", 1),)),)


def test_a_probe_that_may_open_no_more_files_says_so_and_what_to_raise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files", "/proc")

    probe = CountingProbe("greedy")
    monkeypatch.setattr(CountingProbe, "start", full)
    collector = Collector([probe], ReadingQueue(100), 10_000)
    collector._attach(probe)
    status = collector.statuses["greedy"]
    assert (status.state, status.reason) == ("off", "no_descriptors")
    assert "LimitNOFILE" in status.mend


@pytest.mark.parametrize("where", ["start", "poll", "collect"])
def test_a_probe_that_raises_is_switched_off_alone(where: str) -> None:
    broken, sound = CountingProbe("broken", where), CountingProbe("sound")
    queue = ReadingQueue(100)
    collector = Collector([broken, sound], queue, 10_000)
    for probe in (broken, sound):
        collector._attach(probe)
    collector._each(lambda probe: probe.poll())
    collector.flush(10_000)
    status = collector.statuses["broken"]
    assert (status.state, status.reason) == ("off", "fault")
    assert status.detail == f"RuntimeError: {where} broke"
    assert broken.stopped == 1
    assert collector.statuses["sound"].state == "attached"
    assert [item[0] for item in queue.take(10, 0) if not isinstance(item, FlushMark)] == ["sound"]


def test_a_probe_is_told_its_own_settings_and_not_that_it_runs() -> None:
    probe = CountingProbe()
    settings: dict[str, dict[str, object]] = {"counting": {"enabled": True, "limit": 3}}
    Collector([probe], ReadingQueue(1), 10_000, settings)._attach(probe)
    assert probe.told == {"limit": 3}


def test_a_probe_that_is_switched_off_is_never_started() -> None:
    probe = CountingProbe(fail_in="start")
    collector = Collector([probe], ReadingQueue(1), 10_000, {"counting": {"enabled": False}})
    collector._attach(probe)
    assert collector.statuses["counting"].reason == "disabled"


def test_the_thread_flushes_at_multiples_of_the_interval_and_detaches_at_the_end() -> None:
    probe, queue = CountingProbe(), ReadingQueue(1000)
    collector = Collector([probe], queue, 100, poll_seconds=0.01)
    collector.start()
    marks: list[FlushMark] = []
    done = threading.Event()
    while len(marks) < 3 and not done.is_set():
        marks += [item for item in queue.take(10, 1) if isinstance(item, FlushMark)]
    collector.stop()
    assert all(mark.timestamp_ms % 100 == 0 for mark in marks)
    assert probe.stopped == 1


def test_a_ring_is_answered_before_the_next_poll_is_due() -> None:
    class Told(CountingProbe):
        def poll(self) -> None:
            super().poll()
            polled.release()

    polled = threading.Semaphore(0)
    probe, bell = Told(), Doorbell()
    collector = Collector(
        [probe], ReadingQueue(1000), 3_600_000, poll_seconds=3600.0, doorbell=bell
    )
    collector.start()
    for _ in range(3):
        assert polled.acquire(timeout=60)
        bell.ring()
    collector.stop()
    assert probe.stopped == 1


def test_a_clock_set_back_too_far_to_wait_for_is_a_fault_and_not_hours_of_silence() -> None:
    now = [1_000_000.0]
    told: list[tuple[str, BaseException]] = []
    failed = threading.Event()

    def hear(stage: str, error: BaseException) -> None:
        told.append((stage, error))
        failed.set()

    probe = CountingProbe()
    collector = Collector(
        [probe], ReadingQueue(100), 100, poll_seconds=0.01, clock=lambda: now[0], on_fault=hear
    )
    collector.start()
    try:
        now[0] -= 30
        assert not failed.wait(0.2)
        now[0] -= 3600
        assert failed.wait(60)
    finally:
        collector.stop()
    ((stage, error),) = told
    assert (stage, str(error).partition(",")[0]) == (
        "collector",
        "the clock was set back by 3630 s",
    )
    assert probe.stopped == 1
