"""The MPI probe on a compiled stand-in, whose calls are known. The real OpenMPI is in tests/e2e."""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.readings import Count, Event, Gone, Level, ProbeOptions, Process, Reading, Watched
from probes.mpi.functions import BLOCKING, SLOTS, functions
from probes.mpi.probe import SOURCE, MpiProbe
from probes.mpi.readings import Trouble
from probes.mpi.waits import Waits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

P = Process(500, 1)
LIBRARY = """
#include <unistd.h>
static int sink;
int PMPI_Init(int *argc, char ***argv) { usleep(2000); return sink; }
int PMPI_Barrier(int us) { if (us) usleep(us); sink++; return 0; }
int PMPI_Send(int us) { if (us) usleep(us); sink++; return 0; }
__attribute__((noinline)) int MPIR_Err_return_comm(void *comm, const char *name, int code) {
  sink++; return code;
}
int PMPI_Abort(int comm, int code) { sink += code; return 0; }
static __attribute__((noinline, section(".text.apart"))) int wait_all(int us) {
  if (us) usleep(us); sink++; return 0;
}
/* Begins with a jump, as MPICH's does. */
int PMPI_Waitall(int us) { return wait_all(us); }
#pragma weak MPI_Init = PMPI_Init
#pragma weak MPI_Barrier = PMPI_Barrier
#pragma weak MPI_Send = PMPI_Send
#pragma weak MPI_Abort = PMPI_Abort
#pragma weak MPI_Waitall = PMPI_Waitall
"""
PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int MPI_Init(int *, char ***), MPI_Barrier(int), PMPI_Send(int), MPI_Abort(int, int);
int MPIR_Err_return_comm(void *, const char *, int), MPI_Waitall(int);
static int us;
static void *barrier(void *unused) { MPI_Barrier(us); return unused; }
int main() {
  char word[32]; int a, b; pthread_t t[8];
  setvbuf(stdout, 0, _IOLBF, 0);
  printf("%d\\n", getpid());
  while (scanf("%31s %d %d", word, &a, &b) == 3) {
    if (!strcmp(word, "init")) MPI_Init(0, 0);
    if (!strcmp(word, "barrier")) while (a-- > 0) MPI_Barrier(b);
    if (!strcmp(word, "send")) while (a-- > 0) PMPI_Send(b);
    if (!strcmp(word, "waitall")) while (a-- > 0) MPI_Waitall(b);
    if (!strcmp(word, "error")) while (a-- > 0) MPIR_Err_return_comm(0, "", b);
    if (!strcmp(word, "abort")) MPI_Abort(0, a);
    if (!strcmp(word, "threads")) {
      us = b;
      for (int i = 0; i < a; i++) pthread_create(t + i, 0, barrier, 0);
      for (int i = 0; i < a; i++) pthread_join(t[i], 0);
    }
    if (!strcmp(word, "hang")) { us = b; pthread_create(t, 0, barrier, 0); usleep(50000); }
    printf("done\\n");
  }
}
"""


class Program:
    """A running stand-in."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [str(path)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.pid = int(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def do(self, word: str, first: int = 0, second: int = 0) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word} {first} {second}\n")
        self.process.stdin.flush()
        assert self._line() == "done"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


class Driver:
    """Does with the probe what the agent does."""

    def __init__(self) -> None:
        self.probe = MpiProbe()
        self.readings: list[Reading] = []
        self.status = self.probe.start(ProbeOptions({"slow_init": "1ms"}), self.readings.append)

    def flush(self) -> list[Reading]:
        self.probe.poll()
        while self.probe.running is not None and self.probe.running.pending:
            self.probe.poll()
        self.probe.collect()
        readings = self.readings.copy()
        self.readings.clear()
        return readings


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the stand-in")
    folder = tmp_path_factory.mktemp("mpi")
    (folder / "library.c").write_text(LIBRARY)
    (folder / "program.c").write_text(PROGRAM)
    library, program = folder / "libmpi.so.12", folder / "program"
    shared = ("-shared", "-fPIC", "-Wl,-soname,libmpi.so.12", "-o", str(library))
    subprocess.run([compiler, "-O2", *shared, str(folder / "library.c")], check=True)
    linked = ("-pthread", f"-Wl,-rpath,{folder}", "-o", str(program))
    subprocess.run([compiler, "-O2", str(folder / "program.c"), str(library), *linked], check=True)
    return program


@pytest.fixture(scope="module")
def running(stand_in: Path) -> Iterator[Driver]:
    driver = Driver()
    assert driver.status.state != "off", driver.status
    # Keeps the file mapped, so that it is attached once.
    keeper = Program(stand_in)
    driver.flush()
    yield driver
    keeper.end()
    driver.probe.stop()


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


def counts(readings: list[Reading], pid: int, metric: str) -> dict[str, float]:
    found: dict[str, float] = {}
    own = [e for e in readings if isinstance(e, Count) and e.process and e.process.pid == pid]
    for each in own:
        if each.metric == metric:
            op = dict(each.labels).get("op", "")
            found[op] = found.get(op, 0.0) + each.delta
    return found


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
    calls = counts(readings, program.pid, "mpi_calls_total")
    assert calls == {"Barrier": 30, "Send": 20, "Waitall": 10}
    waits = counts(readings, program.pid, "comm_wait_seconds_total")
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
    assert counts(readings, program.pid, "mpi_calls_total") == {"Barrier": 8}
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
    assert counts(readings, program.pid, "mpi_inits_total") == {"": 1}
    assert counts(readings, program.pid, "mpi_errors_total") == {"": 3}
    assert counts(readings, program.pid, "mpi_aborts_total") == {"": 1}
    assert counts(readings, program.pid, "mpi_init_seconds_total")[""] > 0.002
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
    assert counts(readings, program.pid, "mpi_calls_total") == {"Barrier": 5}
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
