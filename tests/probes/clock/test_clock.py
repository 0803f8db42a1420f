from __future__ import annotations

import time

import pytest

from engine.readings import Count, Level, ProbeOptions
from probes.clock.probe import ClockProbe
from probes.clock.wall import STEP_NS, WallClock, read_offset_ns

SECOND = 1_000_000_000


def _clock(*readings: tuple[int, int]) -> WallClock:
    """A clock that has looked at each (monotonic, offset) once."""
    left = list(readings)
    clock = WallClock(lambda: left.pop(0))
    for _ in range(len(readings)):
        clock.observe()
    return clock


def test_an_event_keeps_the_date_that_the_clock_showed_when_it_happened() -> None:
    hour = 3600 * SECOND
    clock = _clock((10 * SECOND, 0), (20 * SECOND, hour))
    assert clock.unix_ms(15 * SECOND) == 15_000
    assert clock.unix_ms(20 * SECOND) == 3_620_000
    assert clock.steps == 1


def test_what_happened_before_the_first_look_has_its_offset() -> None:
    assert _clock((10 * SECOND, SECOND)).unix_ms(5 * SECOND) == 6_000


def test_what_is_newer_than_the_last_look_has_the_clocks_looked_at_again() -> None:
    readings = [(10 * SECOND, 0), (31 * SECOND, 5 * SECOND)]
    clock = WallClock(lambda: readings.pop(0))
    clock.observe()
    assert clock.unix_ms(30 * SECOND) == 30_000
    assert clock.unix_ms(31 * SECOND) == 36_000
    assert readings == []


@pytest.mark.parametrize(("moved", "steps"), [(STEP_NS, 0), (STEP_NS + 1, 1), (-STEP_NS - 1, 1)])
def test_slewing_is_no_step(moved: int, steps: int) -> None:
    assert _clock((0, 0), (SECOND, moved)).steps == steps


@pytest.mark.each_kernel
def test_both_clocks_of_this_machine_agree_on_now() -> None:
    now, offset = read_offset_ns()
    assert abs((now + offset) - time.time_ns()) < SECOND
    assert abs(WallClock().unix_ms(time.monotonic_ns()) - time.time() * 1000) < 1000


@pytest.mark.each_kernel
def test_the_probe_tells_of_the_clock_each_interval() -> None:
    readings: list[Level | Count] = []
    probe = ClockProbe()
    assert probe.start(ProbeOptions(), readings.append).state == "attached"  # type: ignore[arg-type]
    probe.poll()
    probe.collect()
    assert {each.metric for each in readings} == {
        "node_clock_synchronized",
        "node_clock_offset_seconds",
        "node_clock_error_seconds",
        "node_clock_steps_total",
    }
    probe.stop()
    probe.stop()
    assert probe.status().state == "off"
