"""What a probe sees of its calls when they are counted within a budget."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from engine.readings import Process
from probes.budget.governed import Governed
from probes.budget.pool import Pool
from probes.budget.settings import BudgetConfig
from probes.budget.traps import TrapCosts
from probes.functions.function import Function
from probes.functions.records import BUCKETS, Total
from probes.functions.totals import Calls, Look

ONE = Process(7, 90_000)
COPY, WAIT = Function("copy", "lib.so", ("copy",), "enter"), Function("wait", "lib.so", (), "enter")
COSTS = TrapCosts(5e-6, 5e-6, 5e-6, measured=True)


class Kernel:
    """Counts `rate` calls a second in slots while their function is attached; sites and totals."""

    names = ("copy h2d", "copy d2h", "wait")

    def __init__(self, rates: dict[str, float]) -> None:
        self.rates = rates
        self.now = 1000.0
        self.true = dict.fromkeys(self.names, 0.0)
        self._counted = dict.fromkeys(self.names, 0.0)
        self._looked = dict.fromkeys(self.names, 0)
        self.suspended: set[str] = set()
        self.closed: list[str] = []
        self.joined: list[Process] = []
        self.left: list[Process] = []
        self.unowned: list[Calls] = []

    def pass_(self, seconds: float) -> None:
        self.now += seconds
        for slot, rate in self.rates.items():
            self.true[slot] += rate * seconds
            if slot.split()[0] not in self.suspended:
                self._counted[slot] += rate * seconds

    def look(self) -> Look:
        calls = self.unowned
        self.unowned = []
        for slot, counted in self._counted.items():
            new = int(counted) - self._looked[slot]
            self._looked[slot] += new
            if new:
                buckets = (new, *[0] * (BUCKETS - 1))
                total = Total(2 * new, new, new, 0, 0, 1000 * new, 8 * new, 3, buckets)
                calls.append(Calls(ONE, slot, total))
        return Look(int(self.now * 1e9), tuple(calls), ())

    def join(self, process: Process) -> None:
        self.joined.append(process)

    def leave(self, process: Process) -> None:
        self.left.append(process)

    def close_open(self, names: Any) -> None:
        self.closed += names

    def suspend(self, name: str) -> None:
        self.suspended.add(name)

    def resume(self, name: str) -> None:
        self.suspended.discard(name)

    def attached(self, name: str) -> int:
        return int(name not in self.suspended)

    def spans(self, _: str) -> list[Any]:
        return []

    def trap_codes(self, _: str) -> list[bytes]:
        return [b"\x55", b"\xc3"]


@pytest.fixture
def govern(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("probes.budget.governor.current_costs", lambda: COSTS)

    def build(kernel: Kernel) -> Governed:
        found = Governed(
            "cuda",
            cast("Any", kernel),
            cast("Any", kernel),
            (COPY, WAIT),
            BudgetConfig(),
            function_of=lambda slot: slot.split()[0],
            pool=Pool(),
        )
        governor = found.governor
        governor._clock = governor._slicing.clock = lambda: kernel.now
        governor._costs = lambda: COSTS
        governor._weights._used = lambda _: kernel.now
        governor._chance = random.Random(3)
        return found

    return build


def run(kernel: Kernel, governed: Governed, seconds: float) -> list[Calls]:
    told: list[Calls] = []
    for tenth in range(int(seconds * 2)):
        kernel.pass_(0.5)
        governed.poll()
        if tenth % 20 == 19:
            told += governed.look().calls
    return told


def calls(told: list[Calls], slot: str) -> int:
    return sum(each.total.calls for each in told if each.name == slot)


def test_the_sum_of_an_argument_that_was_negative_is_told_though_no_int64_holds_it(
    govern: Any,
) -> None:
    kernel = Kernel({})
    governed = govern(kernel)
    kernel.unowned.append(Calls(ONE, "wait", Total(1, 1, 1, 0, 0, (1 << 64) - (1 << 12), 0, 0)))
    (told,) = governed.look().calls
    assert told.total.sum == (1 << 64) - (1 << 12)


def test_a_last_value_that_came_after_a_look_is_told_by_the_next(govern: Any) -> None:
    kernel = Kernel({})
    governed = govern(kernel)
    looks = []
    for total in (Total(calls=1, last=0), Total(last=5)):
        kernel.unowned.append(Calls(ONE, "wait", total))
        looks += [(each.total.calls, each.total.last) for each in governed.look().calls]
    assert looks == [(1, 0), (0, 5)]
    assert governed.look().calls == ()


def test_within_the_budget_it_tells_what_was_counted(govern: Any) -> None:
    kernel = Kernel({"copy h2d": 100, "wait": 10})
    governed = govern(kernel)
    governed.join(ONE)
    told = run(kernel, governed, 60)
    assert calls(told, "copy h2d") == 6000
    assert sum(each.total.hits for each in told) == 2 * 6600
    assert {each.total.buckets[0] for each in told} == {1000, 100}


def test_over_the_budget_calls_are_scaled_and_hits_are_not(govern: Any) -> None:
    kernel = Kernel({"copy h2d": 9_000, "copy d2h": 1_000, "wait": 10})
    governed = govern(kernel)
    governed.join(ONE)
    told = run(kernel, governed, 300)
    assert governed.governor.modes() == {"copy": "duty", "wait": "full"}
    bounds = {
        each.labels: each.value
        for each in governed.readings("cuda_calls", lambda slot: (("slot", slot),))
        if each.metric == "cuda_calls_error_bound"
    }
    for slot in ("copy h2d", "copy d2h"):
        error = abs(calls(told, slot) - kernel.true[slot])
        assert error <= bounds[(("slot", slot),)] + 1
        assert error < 0.01 * kernel.true[slot]
    assert calls(told, "wait") == pytest.approx(3000)
    hits = sum(each.total.hits for each in told)
    assert hits < 0.5 * 2 * sum(kernel.true.values())
    # Bytes, durations and buckets are scaled as calls are.
    for each in told:
        assert each.total.bytes_total == pytest.approx(8 * each.total.calls, abs=8)
        assert each.total.buckets[0] == pytest.approx(each.total.calls, abs=1)


def test_calls_in_flight_when_it_was_detached_are_not_waited_for(govern: Any) -> None:
    kernel = Kernel({"copy h2d": 9_000})
    governed = govern(kernel)
    governed.join(ONE)
    run(kernel, governed, 100)
    assert set(kernel.closed) == {"copy h2d", "copy d2h"}


def test_a_process_that_no_slice_has_met_may_have_called_as_fast_as_any_other(govern: Any) -> None:
    kernel = Kernel({"copy h2d": 9_000})
    governed = govern(kernel)
    governed.join(ONE)
    run(kernel, governed, 100)
    stranger = Process(8, int(kernel.now * 100))
    governed.governor._ledger._born = lambda process: process.start_ticks / 100
    governed.join(stranger)
    assert kernel.joined == [ONE, stranger]
    kernel.pass_(20)
    governed.look()
    bounds = {
        each.process: each.value
        for each in governed.readings("cuda_calls", lambda slot: (("slot", slot),))
        if each.metric == "cuda_calls_error_bound" and each.labels == (("slot", "copy h2d"),)
    }
    assert bounds[stranger] == pytest.approx(20 * 9_000, rel=0.05)


def test_calls_without_an_owner_are_handed_on(govern: Any) -> None:
    kernel = Kernel({})
    kernel.unowned = [Calls(None, "wait", Total(hits=2, calls=1))]
    told = run(kernel, govern(kernel), 10)
    assert [each.process for each in told] == [None]


def test_a_process_that_ended_is_told_of_once_more_and_forgotten(govern: Any) -> None:
    kernel = Kernel({"copy h2d": 9_000})
    governed = govern(kernel)
    governed.join(ONE)
    told = run(kernel, governed, 200)
    kernel.rates = {}
    governed.leave(ONE)
    assert kernel.left == [ONE]
    told += governed.look().calls
    assert calls(told, "copy h2d") == pytest.approx(kernel.true["copy h2d"], rel=0.02)
    assert not governed._raw
    assert not governed._told
