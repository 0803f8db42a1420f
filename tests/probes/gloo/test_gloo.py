"""The Gloo probe on a compiled stand-in. PyTorch's own Gloo is in tests/e2e."""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from engine.readings import Count, Event, Level, ProbeOptions, Process, Reading, Told
from probes.gloo.functions import FUNCTIONS, SLOTS
from probes.gloo.probe import GlooProbe
from probes.gloo.readings import Group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

P = Process(500, 1)
LIBRARY = """
#include <stdexcept>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
int sink;
static void work(int us) {
  if (us < 0) throw std::runtime_error("timed out");
  if (us) usleep(us);
  sink += 1;
}
namespace gloo {
struct Context { Context(int rank, int size, int base); };
NOINLINE Context::Context(int rank, int size, int base) { sink += rank + size + base; }
namespace rendezvous {
struct Context : gloo::Context { using gloo::Context::Context; void connectFullMesh(int us); };
NOINLINE void Context::connectFullMesh(int us) { work(us); }
}
namespace transport { namespace tcp {
struct UnboundBuffer { bool waitRecv(int us); bool waitSend(int us); };
NOINLINE bool UnboundBuffer::waitRecv(int us) { work(us); return sink; }
NOINLINE bool UnboundBuffer::waitSend(int us) { work(us); return sink; }
} }
}
template <typename Call> static int caught(Call call) {
  try { call(); } catch (std::runtime_error &) { return 1; }
  return 0;
}
extern "C" {
int connect_mesh(int rank, int size, int us) {
  return caught([&] { gloo::rendezvous::Context(rank, size, 2).connectFullMesh(us); });
}
int receive(int us) {
  return caught([&] { gloo::transport::tcp::UnboundBuffer().waitRecv(us); });
}
int transmit(int us) {
  return caught([&] { gloo::transport::tcp::UnboundBuffer().waitSend(us); });
}
}
"""
PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int connect_mesh(int, int, int), receive(int), transmit(int);
static void *hang(void *unused) { connect_mesh(0, 2, 600000000); return unused; }
int main() {
  char word[32]; int a, b, c; pthread_t thread;
  setvbuf(stdout, 0, _IOLBF, 0);
  printf("%d\\n", getpid());
  while (scanf("%31s %d %d %d", word, &a, &b, &c) == 4) {
    int failed = 0;
    if (!strcmp(word, "connect")) failed = connect_mesh(a, b, c);
    if (!strcmp(word, "receive")) while (a-- > 0) failed += receive(b);
    if (!strcmp(word, "transmit")) while (a-- > 0) failed += transmit(b);
    if (!strcmp(word, "hang")) { pthread_create(&thread, 0, hang, 0); usleep(50000); }
    printf("%d\\n", failed);
  }
}
"""


class Program:
    """A running stand-in."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [str(path)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.pid = self._line()

    def _line(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def do(self, word: str, *numbers: int) -> int:
        assert self.process.stdin is not None
        three = (*numbers, 0, 0, 0)[:3]
        self.process.stdin.write(f"{word} {' '.join(map(str, three))}\n")
        self.process.stdin.flush()
        return self._line()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


class Driver:
    """Does with the probe what the agent does."""

    def __init__(self) -> None:
        self.probe = GlooProbe()
        self.readings: list[Reading] = []
        options = ProbeOptions({"slow_connect": "100ms"})
        self.status = self.probe.start(options, self.readings.append)

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
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler for the stand-in")
    folder = tmp_path_factory.mktemp("gloo")
    (folder / "library.cc").write_text(LIBRARY)
    (folder / "program.c").write_text(PROGRAM)
    library, program = folder / "libgloo.so.0", folder / "program"
    shared = ("-shared", "-fPIC", "-Wl,-soname,libgloo.so.0", "-o", str(library))
    subprocess.run([compiler, "-O2", *shared, str(folder / "library.cc")], check=True)
    linked = ("-pthread", f"-Wl,-rpath,{folder}", "-o", str(program))
    subprocess.run(["gcc", "-O2", str(folder / "program.c"), str(library), *linked], check=True)
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
def program(stand_in: Path, running: Driver) -> Iterator[Program]:
    program = Program(stand_in)
    running.flush()
    yield program
    program.end()


def counts(readings: list[Reading], pid: int, metric: str) -> dict[str, float]:
    found: dict[str, float] = {}
    own = [e for e in readings if isinstance(e, Count) and e.process and e.process.pid == pid]
    for each in own:
        if each.metric == metric and each.delta:
            op = dict(each.labels).get("op", "")
            found[op] = found.get(op, 0.0) + each.delta
    return found


def events(readings: list[Reading], pid: int) -> list[str]:
    own = [e for e in readings if isinstance(e, Event) and e.process and e.process.pid == pid]
    return [each.kind for each in own]


@pytest.mark.each_kernel
@pytest.mark.root
def test_waits_in_flight_are_no_communication_wait(running: Driver, program: Program) -> None:
    assert program.do("receive", 20, 1000) == 0
    assert program.do("transmit", 10, 1000) == 0
    readings = running.flush()
    assert counts(readings, program.pid, "gloo_waits_total") == {"recv": 20, "send": 10}
    seconds = counts(readings, program.pid, "gloo_wait_seconds_total")
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
    assert counts(readings, program.pid, "gloo_connects_total") == {"": 2}
    kinds = events(readings, program.pid)
    assert sorted(kinds) == ["gloo_group", "gloo_group", "gloo_slow_connect"]


@pytest.mark.each_kernel
@pytest.mark.root
def test_what_an_exception_leaves_is_a_failure_and_the_exception_is_caught(
    running: Driver, program: Program
) -> None:
    assert program.do("receive", 3, -1) == 3
    assert program.do("connect", 0, 2, -1) == 1
    assert program.do("receive", 1, 0) == 0
    assert program.do("connect", 0, 2, 0) == 0
    readings = running.flush()
    failures = counts(readings, program.pid, "gloo_failures_total")
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
