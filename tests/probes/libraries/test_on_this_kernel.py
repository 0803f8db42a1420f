"""The hook and real processes: what the kernel tells, nothing is swept for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from probes.libraries.hook import LinkerHook
from probes.libraries.limits import Limits
from probes.libraries.maps import LibraryNames
from probes.libraries.watch import LibraryWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from probes.libraries.subscription import Changes, Subscription

pytestmark = [pytest.mark.root, pytest.mark.each_kernel]

# Loads, unloads and forks as it is told; a child only sleeps.
JOB = """
import ctypes, _ctypes, os, sys, time
path, loaded = sys.argv[1], None
print("up", flush=True)
for line in sys.stdin:
    word = line.strip()
    if word == "load":
        loaded = ctypes.CDLL(path)
    elif word == "unload":
        _ctypes.dlclose(loaded._handle)
    elif word == "fork":
        child = os.fork()
        if not child:
            time.sleep(600)
            os._exit(0)
        print(child, end=" ")
    elif word == "exec":
        os.execv("/bin/sleep", ["sleep", "600"])
    print("done", flush=True)
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library of a name that nobody else maps."""
    own = LibraryNames("libsqlite3.so", "libz.so", "libm.so", "libm-").mapped_by(os.getpid())
    if not own:
        pytest.skip("this Python maps no library that could be copied")
    shutil.copy(own[0].path, tmp_path / "libswkernel.so")
    return tmp_path / "libswkernel.so"


@pytest.fixture
def watch() -> Iterator[LibraryWatch]:
    """A watch that sweeps once, at its start."""
    limits = Limits(sweep_seconds=3600)
    watch = LibraryWatch(hook=LinkerHook(), limits=limits)
    yield watch
    watch.close()


class Job:
    def __init__(self, library: Path) -> None:
        command = [sys.executable, "-c", JOB, str(library)]
        self.process: subprocess.Popen[str] = subprocess.Popen(
            command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.pid = self.process.pid
        self.answer()

    def answer(self) -> str:
        return str(self.process.stdout.readline())  # type: ignore[union-attr]

    def tell(self, word: str) -> None:
        self.process.stdin.write(f"{word}\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]

    def do(self, word: str) -> str:
        self.tell(word)
        return self.answer()


@pytest.fixture
def start(library: Path) -> Iterator[Callable[[], Job]]:
    jobs: list[Job] = []

    def run() -> Job:
        jobs.append(Job(library))
        return jobs[-1]

    yield run
    for job in jobs:
        job.process.kill()
        job.process.communicate()


def changes_until(subscription: Subscription, condition: Callable[[Changes], bool]) -> Changes:
    """Poll until something is told."""
    deadline = time.monotonic() + 30
    while not condition(changes := subscription.poll()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return changes


def test_a_library_is_told_of_when_it_is_loaded_shared_by_a_fork_and_unloaded(
    watch: LibraryWatch, start: Callable[[], Job]
) -> None:
    subscription = watch.subscribe("libswkernel.so")
    subscription.poll()
    job = start()
    assert job.do("load") == "done\n"
    changes = changes_until(subscription, lambda c: bool(c.joined))
    assert [each.pid for each in changes.joined] == [job.pid]
    (mapped,) = changes.appeared

    child = int(job.do("fork").split()[0])
    try:
        changes = changes_until(subscription, lambda c: bool(c.joined))
        assert [each.pid for each in changes.joined] == [child]
        assert subscription.parent(child) == next(
            each for each in subscription.processes if each.pid == job.pid
        )
        assert job.do("unload") == "done\n"
        changes = changes_until(subscription, lambda c: bool(c.gone))
        assert [each.pid for each in changes.gone] == [job.pid]
        assert changes.vanished == []
    finally:
        os.kill(child, 9)
    changes = changes_until(subscription, lambda c: bool(c.vanished))
    assert changes.vanished == [mapped.key]


def test_a_program_that_takes_the_place_of_another_lets_go_of_its_libraries(
    watch: LibraryWatch, start: Callable[[], Job]
) -> None:
    subscription = watch.subscribe("libswkernel.so")
    job = start()
    assert job.do("load") == "done\n"
    changes_until(subscription, lambda c: bool(c.joined))
    job.tell("exec")
    changes = changes_until(subscription, lambda c: bool(c.vanished))
    assert Path(f"/proc/{job.pid}/comm").read_text() == "sleep\n"
    assert (changes.joined, subscription.processes) == ([], ())
