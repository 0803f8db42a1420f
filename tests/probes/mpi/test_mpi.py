"""The MPI probe on a compiled stand-in, whose calls are known. The real OpenMPI is in tests/e2e."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.readings import Event, Gone, Level, Process, Reading, Watched
from probes.mpi.functions import BLOCKING, SLOTS, functions
from probes.mpi.probe import SOURCE, MpiProbe
from probes.mpi.readings import Trouble
from probes.mpi.waits import Waits
from tests.probes.driving import Driver, by_operation, keeping
from tests.probes.job import Job, build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = Process(500, 1)
STAND_IN = Path(__file__).with_name("stand_in")


class Program(Job):
    """The running stand-in."""

    numbers = 2


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mpi")
    return build(folder, "libmpi.so.12", STAND_IN / "library.c", STAND_IN / "program.c")


@pytest.fixture(scope="module")
def running(stand_in: Path) -> Iterator[Driver]:
    with keeping(Driver(MpiProbe(), slow_init="1ms"), Program(stand_in)) as driver:
        yield driver


@pytest.fixture
def start(stand_in: Path, running: Driver) -> Iterator[Callable[[], Program]]:
    programs: list[Program] = []

    def run() -> Program:
        programs.append(Program(stand_in))
        running.flush()
        return programs[-1]

    yield run
    for program in programs:
        program.end()


def ratio(readings: list[Reading], pid: int) -> float:
    (value,) = [
        each.value
        for each in readings
        if isinstance(each, Level) and each.metric == "comm_wait_ratio"
        if each.process and each.process.pid == pid
    ]
    return value


@pytest.mark.each_kernel
@pytest.mark.root
def test_calls_are_counted_once_by_either_name_and_their_time_is_waited(
    running: Driver, start: Callable[[], Program]
) -> None:
    program = start()
    program.do("barrier", 30, 1000)
    program.do("send", 20, 0)
    program.do("waitall", 10, 2000)
    readings = running.flush()
    calls = by_operation(readings, program.pid, "mpi_calls_total")
    assert calls == {"Barrier": 30, "Send": 20, "Waitall": 10}
    waits = by_operation(readings, program.pid, "comm_wait_seconds_total")
    assert waits["Barrier"] > 0.03
    assert waits["Waitall"] > 0.02
    assert 0 < ratio(readings, program.pid) <= 1
    assert ratio(running.flush(), program.pid) == 0


@pytest.mark.root
def test_a_call_that_does_not_return_is_a_ratio_of_one_at_every_flush(
    running: Driver, start: Callable[[], Program]
) -> None:
    program = start()
    program.do("hang", 0, 600_000_000)
    running.flush()
    for _ in range(2):
        time.sleep(0.2)
        assert 0.9 <= ratio(running.flush(), program.pid) <= 1


@pytest.mark.root
def test_threads_that_wait_together_count_at_most_the_time_that_passed(
    running: Driver, start: Callable[[], Program]
) -> None:
    program = start()
    running.flush()
    program.do("threads", 8, 100_000)
    readings = running.flush()
    assert by_operation(readings, program.pid, "mpi_calls_total") == {"Barrier": 8}
    assert ratio(readings, program.pid) <= 1


@pytest.mark.each_kernel
@pytest.mark.root
def test_initialisation_errors_and_aborts_are_counted_and_told(
    running: Driver, start: Callable[[], Program]
) -> None:
    program = start()
    program.do("init")
    program.do("error", 3, 0x1234505)
    program.do("abort", 7)
    readings = running.flush()
    assert by_operation(readings, program.pid, "mpi_inits_total") == {"": 1}
    assert by_operation(readings, program.pid, "mpi_errors_total") == {"": 3}
    assert by_operation(readings, program.pid, "mpi_aborts_total") == {"": 1}
    assert by_operation(readings, program.pid, "mpi_init_seconds_total")[""] > 0.002
    events = [e for e in readings if isinstance(e, Event) and e.process]
    own = [e for e in events if e.process and e.process.pid == program.pid]
    told = sorted((e.kind, dict(e.fields).get("code")) for e in own if e.kind != "mpi_slow_init")
    assert told == [("mpi_abort", 7), *[("mpi_error", 5)] * 3]
    assert [e.kind for e in own].count("mpi_slow_init") == 1


@pytest.mark.each_kernel
@pytest.mark.root
def test_the_last_calls_of_a_process_are_counted_before_it_is_gone(
    running: Driver, start: Callable[[], Program]
) -> None:
    program = start()
    program.do("barrier", 5, 0)
    program.end()
    readings = running.flush()
    assert by_operation(readings, program.pid, "mpi_calls_total") == {"Barrier": 5}
    own = [e for e in readings if getattr(e, "process", None)]
    mine = [e for e in own if e.process and e.process.pid == program.pid]
    assert isinstance(mine[-1], Gone)


@pytest.mark.root
def test_a_process_that_maps_mpi_is_watched(running: Driver, stand_in: Path) -> None:
    program = Program(stand_in)
    readings = running.flush()
    program.end()
    watched = [each for each in readings if isinstance(each, Watched)]
    assert program.pid in {each.process.pid for each in watched}


def test_the_programs_slots_are_in_the_order_of_the_names() -> None:
    text = SOURCE.read_text()
    enumerated = text[text.index("enum slot {") : text.index("};")]
    places = [enumerated.index(f"CALL_{call},") for call in BLOCKING]
    assert places == sorted(places)
    assert all(f"BLOCKING({call})" in text for call in BLOCKING)
    assert SLOTS[-3:] == ("Init", "Abort", "error")
    # The budget finds a slot's function by its name.
    assert set(SLOTS) <= {each.name for each in functions()}


def test_a_call_that_is_not_wanted_is_not_probed() -> None:
    names = {each.name for each in functions(["Send", "Recv"])}
    assert names.isdisjoint({"Send", "Recv"})
    assert "Barrier" in names


def test_a_trouble_is_decoded_from_a_record_that_may_be_padded() -> None:
    record = struct.pack("=QIIq", 9, 500, SLOTS.index("Abort"), -3) + bytes(8)
    trouble = Trouble.decode(record)
    assert trouble == Trouble(9, 500, "Abort", -3)
    assert trouble.event(P, 1000) == Event("mpi_abort", 1000, P, (("code", -3),), weight=1)


@given(
    st.lists(
        st.tuples(st.sampled_from(["enter", "leave", "look"]), st.integers(1, 50)), max_size=40
    )
)
@settings(max_examples=60)
def test_all_looks_together_see_exactly_how_long_a_thread_waited(
    script: list[tuple[str, int]],
) -> None:
    waits, now, since, waited, seen = Waits(), 0, 0, 0, 0
    waits.join(P, 0)
    inside = False
    for action, elapsed in script:
        now += elapsed
        waited += elapsed * inside
        if action == "enter" and not inside:
            inside, since = True, now
        elif action == "leave" and inside:
            inside = False
            waits.add(P, "Barrier", now - since)
        elif action == "look":
            part, length = waits.settle(P, {"Barrier": now - since} if inside else {}, now)
            assert sum(part.values()) <= length
            seen += sum(part.values())
    part, _ = waits.settle(P, {"Barrier": now - since} if inside else {}, now)
    assert seen + sum(part.values()) == waited


def test_an_open_call_that_was_given_up_does_not_swallow_later_waits() -> None:
    waits = Waits()
    waits.join(P, 0)
    assert waits.settle(P, {"Recv": 80}, 100)[0] == {"Recv": 80}
    assert waits.settle(P, {}, 200)[0] == {}
    waits.add(P, "Recv", 30)
    assert waits.settle(P, {}, 300)[0] == {"Recv": 30}


def test_waits_of_threads_are_cut_to_the_time_that_passed() -> None:
    waits = Waits()
    waits.join(P, 0)
    assert waits.settle(P, {"Recv": 100, "Send": 300}, 100) == ({"Recv": 25, "Send": 75}, 100)
    waits.leave(P)
    assert waits.settle(P, {}, 400) == ({}, 0)


def test_waits_of_a_process_that_nobody_watches_are_not_kept() -> None:
    waits = Waits()
    waits.add(P, "Recv", 30)
    assert waits == Waits()
