"""However a probed function is left or interrupted, the program goes on and ends as without.

Each hazard is run with no probe in the file, and with entry and exits of every function probed:
same exit status, same output, and each call that came back is counted once.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from engine.readings import ProbeOptions
from probes.custom.probe import CustomProbe
from tests.probes.functions.conftest import Program
from tests.probes.functions.test_calls import LIBRARY, Probed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.root

SEGV, ABRT, KILL = -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGKILL
# Exit status of each.
HAZARDS = {
    "jump": 0,
    "cancel": 0,
    "throw": 0,
    "stacks": 0,
    "copied": 0,
    "interrupt": 0,
    "fault": 0,
    "forks": 0,
    "execs": 0,
    "aborts": ABRT,
    "crash": SEGV,
    "killed": KILL,
    "leaves": 7,
    "last_thread": 9,
}


def run(*command: str | Path) -> tuple[int, str]:
    """Exit status and output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout


def returned(output: str) -> Counter[str]:
    """How many calls the program saw come back."""
    told = re.findall(r"ended add (\d+) hold (\d+) read (\d+)", output)
    sums = [sum(map(int, column)) for column in zip(*told, strict=True)] or [0, 0, 0]
    return Counter(dict(zip(("add", "hold", "read"), sums, strict=True)))


@pytest.fixture(scope="module")
def plain(hazards: Path) -> dict[str, tuple[int, str]]:
    """What each run gives with no probe in the file."""
    return {word: run(hazards, word) for word in HAZARDS}


@pytest.fixture(scope="module")
def probed(plain: dict[str, tuple[int, str]], caller: Path) -> Iterator[Probed]:
    """Probes in the library, as long as the caller maps it."""
    probed, program = Probed(), Program(caller)
    probed.attach(program.pid)
    yield probed
    program.end()
    probed.close()


@pytest.mark.parametrize("word", HAZARDS)
def test_a_program_ends_as_without_probes_and_its_calls_count_once(
    probed: Probed, hazards: Path, plain: dict[str, tuple[int, str]], word: str
) -> None:
    assert plain[word][0] == HAZARDS[word]
    assert run(hazards, word) == plain[word]
    look = probed.look()
    counted = Counter[str]()
    for each in look.calls:
        counted[each.name] += each.total.calls
        assert each.total.timed <= each.total.calls
        # No exit was taken for that of an entry in another program, hours ago.
        assert each.total.sum < 60e9 * each.total.timed + 1
    assert counted - Counter({"throw": counted["throw"]}) == +returned(plain[word][1])
    # Nothing of a thread that has ended is kept.
    assert not look.open
    assert not list(probed.bpf.map("call_threads").items())
    lost = dict(probed.totals.produced("test").lost)
    assert not any(lost.values()), lost


def test_a_library_that_comes_and_goes_while_its_probes_do_computes_the_same(
    caller: Path, hazards: Path, tmp_path: Path
) -> None:
    copy = tmp_path / f"{LIBRARY}.reloaded"
    shutil.copyfile(caller.with_name(LIBRARY), copy)
    unprobed = run(hazards, "reload", copy)
    assert unprobed[0] == 0
    assert "unloaded 1" in unprobed[1]
    probe = CustomProbe()
    own = {"name": "add", "library": copy.name, "symbol": "sw_add",
           "metrics": [{"name": "adds_seconds", "take": "latency"}]}  # fmt: skip
    status = probe.start(ProbeOptions({"probes": [own]}), lambda _: None)
    assert status.reason == "library_absent"
    done: list[tuple[int, str]] = []
    hit = threading.Event()

    def reload() -> None:
        """Five times, and on a busy machine until one was there when the probes were."""
        while len(done) < 5 or (not hit.is_set() and len(done) < 100):
            done.append(run(hazards, "reload", copy))

    runs = threading.Thread(target=reload)
    runs.start()
    try:
        while runs.is_alive():
            probe.poll()
            if dict(probe.produced().produced)[""]:
                hit.set()
            runs.join(0.02)
        probe.collect()
    finally:
        runs.join()
        probe.stop()
    assert done == [unprobed] * len(done)
    assert hit.is_set()
