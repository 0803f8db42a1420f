"""The words of calls.h on a real kernel: every call of a compiled library, counted exactly."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from probes.bpf.loader import ProgramType, load
from probes.functions.function import Function
from probes.functions.records import Total
from probes.functions.sites import FunctionSites
from probes.functions.totals import EXIT_PROGRAM, CallTotals, Look
from probes.libraries.maps import LibraryNames, identify
from tests.probes.functions.conftest import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from probes.libraries.maps import FileKey

pytestmark = pytest.mark.root

SOURCE = Path(__file__).with_name("program.bpf.c")
NAMES = ("add", "wait", "recurse", "throw", "jump", "eight", "engine", "hold", "read")
TIMED = tuple(name for name in NAMES if name not in {"eight", "engine"})
LIBRARY = "libswcalls.so"
FUNCTIONS = [
    *(Function(n, LIBRARY, (f"sw_{n}",), f"enter_{n}", f"leave_{n}") for n in TIMED),
    Function("eight", LIBRARY, ("sw_eight",), "count_eight"),
    Function("engine", LIBRARY, ("swcalls::Engine::run",), "count_engine"),
]
PROGRAMS = [*(f"{word}_{name}" for name in TIMED for word in ("enter", "leave")),
            "count_eight", "count_engine"]  # fmt: skip


class Probed:
    """The programs loaded, and what a process called."""

    def __init__(self, linger_seconds: float = 0, **defines: int) -> None:
        kinds = dict.fromkeys(PROGRAMS, ProgramType.UPROBE) | EXIT_PROGRAM
        self.bpf = load(SOURCE, kinds, defines)
        self.sites = FunctionSites(self.bpf, FUNCTIONS, linger_seconds=linger_seconds)
        self.totals = CallTotals(self.bpf, NAMES)
        self.names = LibraryNames(LIBRARY)
        self.weight = 0

    def attach(self, pid: int) -> FileKey:
        (mapped,) = self.names.mapped_by(pid)
        self.sites.attach(mapped)
        while self.sites.pending:
            self.sites.advance()
        return mapped.key

    def look(self) -> Look:
        look = self.totals.look()
        self.weight += sum(each.total.hits for each in look.calls)
        return look

    def calls(self, pid: int | None, name: str) -> Total:
        found = [c.total for c in self.look().calls if c.name == name
                 and (c.process.pid if c.process else None) == pid]  # fmt: skip
        assert len(found) <= 1
        return found[0] if found else Total()

    def close(self) -> None:
        self.sites.close()
        self.bpf.close()


@pytest.fixture
def probed() -> Iterator[Probed]:
    probed = Probed()
    yield probed
    probed.close()


@pytest.mark.each_kernel
def test_calls_are_counted_exactly_with_their_bytes_failures_and_durations(
    probed: Probed, start: Callable[[], Program]
) -> None:
    program = start()
    probed.attach(program.pid)
    program.do("add", 1000, 64)
    program.do("fail", 10)
    total = probed.calls(program.pid, "add")
    assert (total.calls, total.timed, total.errors) == (1010, 1010, 10)
    assert (total.hits, total.bytes_total, total.abandoned) == (2020, 64_000, 0)
    assert sum(total.buckets) == 1010
    assert probed.totals.produced("test").produced[0] == ("", 2020)
    assert probed.weight == 2020
    assert not probed.look().calls


@pytest.mark.each_kernel
def test_threads_are_counted_together_and_their_records_removed(
    probed: Probed, start: Callable[[], Program]
) -> None:
    program = start()
    probed.attach(program.pid)
    program.do("threads", 8, 500)
    total = probed.calls(program.pid, "add")
    assert (total.calls, total.timed, total.hits) == (4000, 4000, 8000)
    assert not list(probed.bpf.map("call_threads").items())


def test_recursive_calls_are_each_timed_down_to_four_and_all_counted(
    probed: Probed, start: Callable[[], Program]
) -> None:
    program = start()
    probed.attach(program.pid)
    program.do("recurse", 3)
    total = probed.calls(program.pid, "recurse")
    assert (total.calls, total.timed, total.abandoned) == (4, 4, 0)
    program.do("recurse", 9)
    total = probed.calls(program.pid, "recurse")
    assert (total.calls, total.timed, total.abandoned, total.hits) == (10, 4, 6, 20)


@pytest.mark.parametrize("word", ["throw", "jump"])
def test_an_entry_that_was_left_another_way_is_abandoned_at_the_next_one(
    probed: Probed, start: Callable[[], Program], word: str
) -> None:
    program = start()
    probed.attach(program.pid)
    program.do(word, 5)
    assert [each.name for each in probed.look().open] == [word]
    program.do(f"no{word}", 3)
    look = probed.look()
    (calls,) = look.calls
    assert not look.open
    assert (calls.total.calls, calls.total.abandoned, calls.total.hits) == (3, 5, 11)


def test_a_hang_is_open_at_every_look_until_its_process_ends(
    probed: Probed, start: Callable[[], Program]
) -> None:
    program = start()
    probed.attach(program.pid)
    program.do("hang")
    for _ in range(2):
        time.sleep(0.1)
        look = probed.look()
        (hang,) = look.open
        assert hang.process is not None
        assert (hang.process.pid, hang.name) == (program.pid, "wait")
        assert look.now - hang.since > 50_000_000
    program.end()
    look = probed.look()
    assert not look.open
    assert [(c.name, c.total.hits, c.total.abandoned) for c in look.calls] == [("wait", 1, 1)]
    assert probed.weight == probed.totals.produced("test").produced[0][1]


@pytest.mark.each_kernel
def test_a_slow_call_is_an_event_with_its_duration_and_what_the_program_put_there(
    probed: Probed, start: Callable[[], Program]
) -> None:
    program = start()
    probed.attach(program.pid)
    probed.totals.set_threshold("wait", 0.1)
    program.do("wait", 3, 1000)
    program.do("wait", 2, 150_000)
    slow = probed.totals.slow()
    assert all(each.record.duration >= 100_000_000 for each in slow)
    slow = [each for each in slow if each.record.a != 1000]  # a busy machine's
    assert [each.name for each in slow] == ["wait", "wait"]
    for each in slow:
        assert each.process is not None
        assert each.process.pid == each.record.pid == program.pid
        assert (each.record.a, each.record.b) == (150_000, 42)
        assert each.record.duration >= 150_000_000
        assert abs(each.time_ms - time.time() * 1000) < 5000


def test_arguments_on_the_stack_and_overloads_are_reached(
    probed: Probed, start: Callable[[], Program]
) -> None:
    program = start()
    probed.attach(program.pid)
    program.do("eight", 2)
    program.do("engine", 3, 1)
    look = probed.look()
    totals = {each.name: each.total for each in look.calls}
    assert (totals["eight"].last, totals["eight"].sum) == (68, 136)
    assert totals["engine"].calls == 6


def test_a_forked_child_is_a_process_of_its_own(
    probed: Probed, start: Callable[[], Program]
) -> None:
    program = start()
    probed.attach(program.pid)
    child = int(program.do("fork", 7).split()[0])
    try:
        totals = {c.process.pid: c.total.calls for c in probed.look().calls if c.process}
        assert totals == {child: 7}
    finally:
        os.kill(child, signal.SIGKILL)


def test_an_exec_keeps_the_process(probed: Probed, start: Callable[[], Program]) -> None:
    program = start()
    probed.attach(program.pid)
    assert program.do("exec", 7) == str(program.pid)
    program.do("add", 5)
    assert probed.calls(program.pid, "add").calls == 12


def test_a_suspended_function_counts_nothing_and_counts_again_when_resumed(
    probed: Probed, start: Callable[[], Program]
) -> None:
    program = start()
    probed.attach(program.pid)
    probed.sites.suspend("add")
    probed.sites._detacher.drain()
    program.do("add", 5)
    assert probed.calls(program.pid, "add").calls == 0
    probed.sites.resume("add")
    program.do("add", 6)
    assert probed.calls(program.pid, "add").calls == 6


def test_nothing_is_left_when_the_last_user_is_gone(
    probed: Probed, start: Callable[[], Program]
) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    program = start()
    key = probed.attach(program.pid)
    assert probed.sites.attachments > len(FUNCTIONS)
    assert (probed.sites.attached("add"), probed.sites.absent("add")) == (1, 0)
    assert probed.sites.status("test").state == "attached"
    probed.sites.detach(key)
    assert probed.sites._detacher.drain(30)
    program.end()
    assert probed.sites.attachments == 0
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.each_kernel
def test_a_full_map_and_a_full_ring_are_counted_under_their_reasons(
    start: Callable[[], Program],
) -> None:
    probed = Probed(SW_CALL_TOTALS=1, SW_CALL_THREADS=1, SW_CALL_RING_PAGES=1)
    try:
        program = start()
        probed.attach(program.pid)
        probed.totals.set_threshold("add", 1e-9)
        program.do("add", 200)
        program.do("nothrow", 10)
        produced = probed.totals.produced("test")
        slow = len(probed.totals.slow())
        probed.look()
        lost = dict(produced.lost)
        assert produced.produced == (("", 420), ("events", 200))
        assert lost["", "threads_full"] == 10
        assert lost["", "map_full"] == 10
        assert probed.weight == 400
        assert 0 < lost["events", "ring_full"] == 200 - slow
    finally:
        probed.close()


# clone3(2) with set_tid: the child has the pid that is asked for.
REUSE = """
import ctypes, os, struct, sys
tid = (ctypes.c_int * 1)(int(sys.argv[1]))
args = struct.pack("=11Q", 0, 0, 0, 0, 17, 0, 0, 0, ctypes.addressof(tid), 1, 0)
block = ctypes.create_string_buffer(args, len(args))
child = ctypes.CDLL(None, use_errno=True).syscall(435, block, len(args))
if child == 0:
    os.execv(sys.argv[2], sys.argv[2:])
if child < 0:
    print(-ctypes.get_errno(), flush=True)
else:
    os.waitpid(child, 0)
"""


def test_a_pid_that_is_used_again_between_two_looks_is_another_process(
    probed: Probed, start: Callable[[], Program], caller: Path
) -> None:
    first = start()
    probed.attach(first.pid)
    was = identify(first.pid)
    assert was is not None
    probed.totals.join(was)  # as a watch does
    first.do("add", 100)
    first.end()
    command = [sys.executable, "-c", REUSE, str(first.pid), str(caller)]
    second = Program(*command)
    if second.pid < 0:
        pytest.skip(f"clone3 with set_tid is refused: {os.strerror(-second.pid)}")
    try:
        assert second.pid == first.pid
        second.do("add", 30)
        calls = {each.process: each.total.calls for each in probed.look().calls}
        now = identify(second.pid)
        assert now is not None
        assert now != was
        assert calls == {was: 100, now: 30}
    finally:
        os.kill(second.pid, signal.SIGKILL)
        second.end()


UNLOAD = """
import _ctypes, ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
print(os.getpid(), flush=True)
for times in (3, 4):
    sys.stdin.readline()
    for _ in range(times):
        library.sw_add(1, 2, 3)
    _ctypes.dlclose(library._handle)
    library = ctypes.CDLL(sys.argv[1])
    print("done", flush=True)
sys.stdin.readline()
"""


def test_a_library_that_is_unloaded_and_loaded_again_keeps_its_probes(
    probed: Probed, caller: Path
) -> None:
    program = Program(sys.executable, "-c", UNLOAD, str(caller.with_name("libswcalls.so")))
    try:
        probed.attach(program.pid)
        program.do("")
        assert probed.calls(program.pid, "add").calls == 3
        program.do("")
        assert probed.calls(program.pid, "add").calls == 4
    finally:
        program.end()
