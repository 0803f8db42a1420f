"""The Gloo probe on a compiled stand-in. PyTorch's own Gloo is in tests/e2e."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.readings import Event, Level, Process, Reading, Told
from probes.gloo.functions import FUNCTIONS, SLOTS
from probes.gloo.probe import GlooProbe
from probes.gloo.readings import Group
from tests.probes.driving import Driver, by_operation, keeping
from tests.probes.job import Job, build

if TYPE_CHECKING:
    from collections.abc import Iterator

P = Process(500, 1)
STAND_IN = Path(__file__).with_name("stand_in")


class Program(Job):
    """The running stand-in."""

    numbers = 3


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gloo")
    return build(folder, "libgloo.so.0", STAND_IN / "library.cc", STAND_IN / "program.c")


@pytest.fixture(scope="module")
def running(stand_in: Path) -> Iterator[Driver]:
    with keeping(Driver(GlooProbe(), slow_connect="100ms"), Program(stand_in)) as driver:
        yield driver


@pytest.fixture
def program(stand_in: Path, running: Driver) -> Iterator[Program]:
    program = Program(stand_in)
    running.flush()
    yield program
    program.end()


def events(readings: list[Reading], pid: int) -> list[str]:
    own = [e for e in readings if isinstance(e, Event) and e.process and e.process.pid == pid]
    return [each.kind for each in own]


@pytest.mark.each_kernel
@pytest.mark.root
def test_waits_in_flight_are_no_communication_wait(running: Driver, program: Program) -> None:
    assert program.do("receive", 20, 1000) == "0"
    assert program.do("transmit", 10, 1000) == "0"
    readings = running.flush()
    assert by_operation(readings, program.pid, "gloo_waits_total") == {"recv": 20, "send": 10}
    seconds = by_operation(readings, program.pid, "gloo_wait_seconds_total")
    assert seconds["recv"] > 0.02
    assert seconds["send"] > 0.01
    assert not [e for e in readings if getattr(e, "metric", "").startswith("comm_wait")]


@pytest.mark.each_kernel
@pytest.mark.root
def test_a_process_is_told_its_rank_and_a_slow_connect_is_an_event(
    running: Driver, program: Program
) -> None:
    program.do("connect", 3, 8, 1000)
    program.do("connect", 1, 4, 200_000)
    readings = running.flush()
    told = [e for e in readings if isinstance(e, Told) and e.process.pid == program.pid]
    assert [(each.rank, each.size) for each in told] == [(3, 8), (1, 4)]
    assert by_operation(readings, program.pid, "gloo_connects_total") == {"": 2}
    kinds = events(readings, program.pid)
    assert sorted(kinds) == ["gloo_group", "gloo_group", "gloo_slow_connect"]


@pytest.mark.each_kernel
@pytest.mark.root
def test_what_an_exception_leaves_is_a_failure_and_the_exception_is_caught(
    running: Driver, program: Program
) -> None:
    assert program.do("receive", 3, -1) == "3"
    assert program.do("connect", 0, 2, -1) == "1"
    assert program.do("receive", 1, 0) == "0"
    assert program.do("connect", 0, 2, 0) == "0"
    readings = running.flush()
    failures = by_operation(readings, program.pid, "gloo_failures_total")
    assert failures == {"recv": 3, "connect": 1}
    assert events(readings, program.pid).count("gloo_connect_failed") == 1


@pytest.mark.root
def test_a_connect_that_hangs_is_seen_while_it_does(running: Driver, program: Program) -> None:
    program.do("hang")
    ages = []
    for _ in range(2):
        time.sleep(0.1)
        levels = [e for e in running.flush() if isinstance(e, Level)]
        own = [e for e in levels if e.process and e.process.pid == program.pid]
        (age,) = [each.value for each in own if each.metric == "gloo_connect_open_seconds"]
        ages.append(age)
    assert 0.1 < ages[0] < ages[1]


def test_every_slot_has_a_function_of_its_name() -> None:
    assert set(SLOTS) <= {each.name for each in FUNCTIONS}


def test_a_group_is_decoded_and_a_rank_that_makes_no_sense_is_not_told() -> None:
    group = Group.decode(struct.pack("=QIiiI", 7, 500, 1, 2, 0) + bytes(8))
    assert group == Group(7, 500, 1, 2)
    assert list(group.readings(P, 1000)) == [
        Event("gloo_group", 1000, P, (("group_rank", 1), ("group_size", 2)), weight=1),
        Told(P, 1, 2),
    ]
    assert len(list(Group(7, 500, -1, 2).readings(P, 1000))) == 1
    assert len(list(group.readings(None, 1000))) == 1
