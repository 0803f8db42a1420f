"""The order of slices and runs."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest

from probes.overhead.errors import OverheadError
from probes.overhead.pairs import Slice
from probes.overhead.runs import Rounds, run_once, run_ratio
from probes.overhead.within import Pair, Turns, step_ratio


@dataclass
class Switch:
    """Probes that only say whether they are on."""

    on: bool = False
    measured: list[bool] = field(default_factory=list)

    def start(self) -> None:
        assert not self.on
        self.on = True

    def stop(self) -> None:
        self.on = False

    def measure(self, _: float) -> None:
        self.measured.append(self.on)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probes.overhead.within.time.sleep", lambda _: None)


@pytest.mark.usefixtures("no_waiting")
def test_pairs_alternate_in_order_and_those_without_probes_lie_between() -> None:
    switch = Switch()
    turns = Turns(switch, 5, 8, 3, lambda: 0.0)
    turns.run(4, lambda _: None)
    off, on = False, True
    with_probes, without = [off, on, on, off], [off, off, off, off]
    assert switch.measured == with_probes + without + without + with_probes
    assert sum(pair.idle for pair in turns.pairs) == 4
    assert all(not pair.first.treated and pair.second.treated for pair in turns.pairs)


@pytest.mark.usefixtures("no_waiting")
def test_the_cpu_time_of_a_slice_is_what_was_used_in_it() -> None:
    used = iter(range(100))
    turns = Turns(Switch(), 5, 8, 3, lambda: float(next(used)))
    turns.run(2, lambda _: None)
    assert {each.cpu_seconds for pair in turns.pairs for each in (pair.first, pair.second)} == {1.0}


def test_steps_of_pairs_are_compared_kind_by_kind() -> None:
    ends = [np.concatenate([np.arange(0, 10, 1.0), np.arange(10, 20, 1.1), np.arange(20, 40, 1.0)])]
    slices = [Slice(10.0 * n, 10.0 * n + 9.9, treated=n % 2 == 1) for n in range(4)]
    pairs = [Pair(False, slices[0], slices[1]), Pair(True, slices[2], slices[3])]
    treated, idle = (step_ratio(pairs, ends, idle=each, cpu=False) for each in (False, True))
    assert treated is not None
    assert idle is not None
    assert treated.value == pytest.approx(1.1)
    assert idle.value == pytest.approx(1.0)


def test_pairs_after_the_last_step_do_not_count() -> None:
    pair = Pair(False, Slice(100, 105, treated=False), Slice(105, 110, treated=True))
    assert step_ratio([pair], [np.arange(10.0)], idle=False, cpu=False) is None


def test_each_round_runs_the_command_with_probes_once_and_three_times_without() -> None:
    switch = Switch()
    told: list[int] = []
    rounds = Rounds(("true",), switch, random.Random(1))
    rounds.run(3, told.append)
    assert told == [1, 2, 3]
    assert not switch.on
    assert len(rounds.treated) == len(rounds.idle) == 3
    ratio = run_ratio(rounds.treated, cpu=False)
    assert ratio is not None
    assert ratio.pairs == 3


def test_a_run_tells_the_cpu_time_of_its_children_too() -> None:
    spin = "import time\nt = time.process_time()\nwhile time.process_time() - t < 0.3: pass"
    found = run_once(("sh", "-c", f"{sys.executable} -c '{spin}'; true"))
    assert found.cpu_seconds >= 0.25
    assert found.seconds > 0


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("/no/such/program",), "cannot run /no/such/program: No such file or directory"),
        (("sh", "-c", "echo the reason >&2; exit 3"), "sh failed with status 3:\nthe reason"),
        (("sh", "-c", "kill -9 $$"), "sh was killed by signal 9"),
    ],
)
def test_a_command_that_does_not_end_well_is_an_error(
    command: tuple[str, ...], message: str
) -> None:
    with pytest.raises(OverheadError, match=message):
        run_once(command)


def test_ctrl_c_leaves_what_there_is() -> None:
    rounds = Rounds(("true",), Switch(), random.Random(1))

    def interrupt(done: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rounds.run(5, interrupt)
    assert len(rounds.treated) == 2
