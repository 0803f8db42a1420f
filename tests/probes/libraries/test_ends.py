"""Real processes that end."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from engine.readings import Process
from probes.libraries.ends import Ends
from probes.libraries.maps import identify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

THREADED = """
import ctypes, sys, threading
def work():
    print("up", flush=True)
    sys.stdin.readline()
    import os
    os._exit(0)
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    running: list[subprocess.Popen[bytes]] = []

    def run(*command: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


def identified(pid: int) -> Process:
    process = identify(pid)
    assert process is not None
    return process


def test_each_end_is_told_once_and_every_descriptor_given_back(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    ends = Ends()
    running = [start("cat") for _ in range(3)]
    processes = [identified(each.pid) for each in running]
    for process in processes:
        ends.add(process)
        ends.add(process)
    assert ends.ended() == []
    for each in running[:2]:
        each.kill()
    running[0].wait()  # the other stays unreaped, and has ended all the same
    os.waitid(os.P_PID, running[1].pid, os.WEXITED | os.WNOWAIT)
    assert ends.ended() == sorted(processes[:2])
    assert ends.ended() == []
    ends.close()
    for each in running:
        each.kill()
        each.communicate()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_process_that_had_ended_or_was_another_is_told_at_once(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    dead = start("true")
    dead.wait()
    other = Process(os.getpid(), 1)
    ends = Ends()
    ends.add(Process(dead.pid, 1))
    ends.add(other)
    assert ends.ended() == sorted([Process(dead.pid, 1), other])
    ends.close()


def test_a_main_thread_that_ends_first_is_not_the_end(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    running = start(sys.executable, "-c", THREADED)
    assert running.stdout is not None
    running.stdout.readline()
    ends = Ends()
    process = identified(running.pid)
    ends.add(process)
    assert ends.ended() == []
    running.communicate(b"\n")
    assert ends.ended() == [process]
    ends.close()


def test_without_descriptors_processes_are_asked_after(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    ends.add(Process(7, 1))
    assert ends.ended() == [Process(7, 1)]
    assert ends.ended() == []
    ends.close()
