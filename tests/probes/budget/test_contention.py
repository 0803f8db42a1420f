"""What the kernel says of a thread's turns on a CPU."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from engine.readings import Process
from probes.budget.contention import stretch, turns

if TYPE_CHECKING:
    from pathlib import Path

PROCESS = Process(7, 900)


def stage(proc: Path, **texts: str) -> Path:
    for name, text in texts.items():
        folder = proc / "7" / "task" / name.removeprefix("t")
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(text)
    return proc


def test_the_main_thread_is_always_among_them(tmp_path: Path) -> None:
    proc = stage(tmp_path, t7="10 20 3\n", t8="100 200 3\n", t9="1 2 3\n")
    assert turns(PROCESS, proc=proc) == {7: (10, 20)}
    assert turns(PROCESS, [8], proc) == {7: (10, 20), 8: (100, 200)}


def test_a_thread_that_is_gone_or_of_which_the_kernel_says_nothing_is_left_out(
    tmp_path: Path,
) -> None:
    proc = stage(tmp_path, t7="", t8="100 200 3\n")
    assert turns(PROCESS, [8, 9], proc) == {8: (100, 200)}


def test_a_second_on_the_cpu_takes_as_much_longer_as_the_threads_waited_for_it() -> None:
    assert stretch({7: (0, 0)}, {7: (100, 300)}) == 4
    assert stretch({7: (0, 0), 8: (50, 0)}, {7: (100, 100), 8: (150, 100)}) == 2


def test_without_turns_between_two_times_nothing_took_longer() -> None:
    assert stretch({}, {}) == 1
    assert stretch({7: (100, 10)}, {7: (100, 90)}) == 1
    assert stretch({7: (0, 0)}, {7: (100, 0), 8: (5_000, 90_000)}) == 1


def test_a_thread_of_this_process_has_had_its_turns() -> None:
    process = Procfs().identify(os.getpid())
    assert process is not None
    ran, _ = turns(process, [threading.get_native_id()])[threading.get_native_id()]
    assert ran > 0
