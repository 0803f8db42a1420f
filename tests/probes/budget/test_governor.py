"""The governor in a world whose loads are known."""

from __future__ import annotations

from typing import Any

import pytest

from engine.readings import Count, Process
from probes.budget.settings import BudgetConfig
from probes.libraries.maps import FileKey
from probes.sampling.addresses import Span

ONE, TWO = Process(7, 90_000), Process(8, 90_000)
LAUNCH, WAIT = ("launch", ONE), ("wait", ONE)
# Of one core, with 5 µs a trap: 20,000 traps a second take 10 %, 1,000 take 0.5 %.
HOT, WARM = 20_000.0, 1_000.0


def test_a_function_within_its_budget_is_counted_exactly(world: Any, named: Any) -> None:
    here = world({LAUNCH: lambda t: WARM * t})
    governor = here.governor((named("launch"),), BudgetConfig())
    here.run(governor, 60)
    raw = here.read()[LAUNCH]
    estimate = governor.estimate(LAUNCH, raw)
    assert governor.modes() == {"launch": "full"}
    assert tuple(estimate.values) == raw
    assert estimate.bound == 0


def test_a_hot_function_is_watched_in_slices_that_keep_the_budget(world: Any, named: Any) -> None:
    here = world({LAUNCH: lambda t: HOT * t})
    governor = here.governor((named("launch"),), BudgetConfig())
    here.run(governor, 60)
    assert [change[1:] for change in here.changes] == [("launch", "duty")]
    before, since = here.raw[LAUNCH], here.now
    here.run(governor, 300)
    taken = (here.raw[LAUNCH] - before) * 5e-6 / (here.now - since)
    assert 0.005 < taken < 0.01


def test_scaled_counts_never_fall_and_hold_the_truth_within_their_bound(
    world: Any, named: Any
) -> None:
    here = world({LAUNCH: lambda t: HOT * t})
    governor = here.governor((named("launch"),), BudgetConfig())
    shown = 0.0
    for _ in range(60):
        here.run(governor, 10)
        truth, raw = HOT * (here.now - 1000), here.read()[LAUNCH]
        estimate = governor.estimate(LAUNCH, raw)
        assert estimate.values[0] >= shown
        # Reading takes 2 ms, in which 40 more calls are made.
        assert abs(estimate.values[0] - truth) <= estimate.bound + 41
        assert abs(estimate.values[1] - 3 * truth) <= governor.estimate(LAUNCH, raw, 1).bound + 123
        shown = estimate.values[0]
    # A tenth of each slice is spent in traps, which may have kept as many calls from being made.
    assert estimate.bound < 0.15 * truth


def test_when_the_load_falls_everything_is_counted_again(world: Any, named: Any) -> None:
    def calms_down(t: float) -> float:
        return HOT * min(t, 1100) + 100 * max(0.0, t - 1100)

    here = world({LAUNCH: calms_down})
    governor = here.governor((named("launch"),), BudgetConfig())
    here.run(governor, 500)
    assert [change[1:] for change in here.changes] == [("launch", "duty"), ("launch", "full")]
    before = governor.estimate(LAUNCH, here.read()[LAUNCH])
    counted = here.raw[LAUNCH]
    here.run(governor, 60)
    after = governor.estimate(LAUNCH, here.read()[LAUNCH])
    assert after.values[0] - before.values[0] == pytest.approx(here.raw[LAUNCH] - counted)
    assert after.bound == before.bound


def test_a_load_that_swings_does_not_make_it_flap(world: Any, named: Any) -> None:
    def swings(t: float) -> float:  # 150 s hot, 150 s nearly idle
        cycles, rest = divmod(t - 1000, 300)
        hot = cycles * 150 + min(rest, 150)
        return HOT * hot + 10 * (t - 1000 - hot)

    here = world({LAUNCH: swings})
    governor = here.governor((named("launch"),), BudgetConfig())
    here.run(governor, 3600)
    assert len(here.changes) <= 5


def test_a_function_with_a_colder_one_leaves_counting_to_it(world: Any, named: Any) -> None:
    here = world({LAUNCH: lambda t: HOT * t, WAIT: lambda t: 100 * t})
    functions = (named("launch", colder=("wait",)), named("wait"))
    governor = here.governor(functions, BudgetConfig(ladder=("colder", "duty")))
    here.run(governor, 60)
    assert governor.modes() == {"launch": "colder", "wait": "full"}


def test_without_a_colder_one_that_is_attached_it_is_watched_in_slices(
    world: Any, named: Any
) -> None:
    here = world({LAUNCH: lambda t: HOT * t})
    here.suspend("wait")
    here.pass_(1)
    functions = (named("launch", colder=("wait",)), named("wait"))
    governor = here.governor(functions, BudgetConfig(ladder=("colder", "duty")))
    here.run(governor, 60)
    assert governor.modes()["launch"] == "duty"


def test_what_no_slice_can_afford_is_detached_and_looked_at_again(world: Any, named: Any) -> None:
    here = world({LAUNCH: lambda t: 1e7 * t})
    governor = here.governor((named("launch"),), BudgetConfig())
    here.run(governor, 60)
    assert governor.modes() == {"launch": "detached"}
    counted = here.raw[LAUNCH]
    here.run(governor, 300)
    assert here.raw[LAUNCH] == counted
    here.run(governor, 1500)
    assert {mode for _, _, mode in here.changes} == {"duty", "detached"}
    assert len(here.changes) <= 5


@pytest.mark.parametrize("ladder", [("duty", "colder"), ()])
def test_what_was_detached_and_has_become_cool_is_watched_again(
    world: Any, named: Any, ladder: Any
) -> None:
    here = world({LAUNCH: lambda t: 1e7 * min(t, 1100) + 10 * max(0.0, t - 1100)})
    governor = here.governor((named("launch"),), BudgetConfig(ladder=ladder))
    here.run(governor, 60)
    assert governor.modes() == {"launch": "detached"}
    here.run(governor, 900)
    assert [mode for _, _, mode in here.changes[-2:]] == ["duty", "full"]


def test_what_slices_cannot_count_is_let_go_when_it_is_still_too_hot(
    world: Any, named: Any
) -> None:
    here = world({LAUNCH: lambda t: HOT * t})
    governor = here.governor((named("launch"),), BudgetConfig(ladder=()))
    here.run(governor, 1500)
    assert [mode for _, _, mode in here.changes] == ["detached", "duty", "detached"]


def test_what_no_slice_can_afford_is_sampled_where_its_code_is_known(
    world: Any, named: Any
) -> None:
    here = world({LAUNCH: lambda t: 1e7 * t})
    here.places = (Span(FileKey("8:1", 5), 4096, 64),)
    governor = here.governor((named("launch"),), BudgetConfig())
    here.run(governor, 300)
    assert governor.modes() == {"launch": "sampled"}
    told = list(governor.levels())
    (count,) = [each for each in told if isinstance(each, Count)]
    bound = next(each for each in told if each.metric == "function_cpu_seconds_error_bound")
    assert count.metric == "function_cpu_seconds_total"
    assert (count.process, count.labels) == (ONE, (("probe", "cuda"), ("function", "launch")))
    assert count.delta == pytest.approx(0.25 * 240, rel=0.2)
    assert 0 < bound.value < 0.1 * count.delta
    # It costs what the clock costs, which the process's other probes are told of.
    assert here.pool.allowed("nccl", ONE, {"reduce": 1.0}, 0.01) == {"reduce": 0.01 - 1e-4}
    governor.forget(ONE)
    assert not [each for each in governor.levels() if isinstance(each, Count)]


def test_a_process_that_came_when_nothing_was_counted_any_more_is_sampled_too(
    world: Any, named: Any
) -> None:
    here = world({LAUNCH: lambda t: 1e7 * t})
    here.places = (Span(FileKey("8:1", 5), 4096, 64),)
    governor = here.governor((named("launch"),), BudgetConfig())
    here.run(governor, 300)
    for _ in range(2):
        here.pass_(10)
        governor.step(here.read(), processes=[TWO])
    sampled = [each.process for each in governor.levels() if isinstance(each, Count)]
    assert sampled == [ONE, TWO]


def test_what_was_sampled_and_has_become_cool_is_counted_again(world: Any, named: Any) -> None:
    here = world({LAUNCH: lambda t: 1e7 * min(t, 1100) + 10 * max(0.0, t - 1100)})
    here.places = (Span(FileKey("8:1", 5), 4096, 64),)
    governor = here.governor((named("launch"),), BudgetConfig())
    here.run(governor, 1000)
    assert [mode for _, _, mode in here.changes[-3:]] == ["sampled", "duty", "full"]
    assert not [each for each in governor.levels() if isinstance(each, Count)]


def test_one_process_that_pays_too_much_decides_for_all(world: Any, named: Any) -> None:
    here = world({LAUNCH: lambda t: HOT * t, ("launch", TWO): lambda t: 10 * t})
    governor = here.governor((named("launch"),), BudgetConfig())
    here.run(governor, 200)
    assert governor.modes() == {"launch": "duty"}
    raw = here.read()
    for key, rate in ((LAUNCH, HOT), (("launch", TWO), 10)):
        estimate = governor.estimate(key, raw[key])
        assert abs(estimate.values[0] - rate * (here.now - 1000)) <= estimate.bound + 1


def test_many_warm_functions_of_one_process_share_its_budget(world: Any, named: Any) -> None:
    names = [f"f{number}" for number in range(6)]
    here = world({(name, ONE): lambda t: WARM * t for name in names})
    governor = here.governor(tuple(map(named, names)), BudgetConfig())
    here.run(governor, 100)
    before, since = sum(here.raw.values()), here.now
    here.run(governor, 200)
    assert set(governor.modes().values()) == {"duty"}
    assert (sum(here.raw.values()) - before) * 5e-6 / (here.now - since) < 0.01


def test_a_larger_budget_is_a_setting(world: Any, named: Any) -> None:
    here = world({LAUNCH: lambda t: HOT * t})
    governor = here.governor((named("launch"),), BudgetConfig(ratio=0.2))
    here.run(governor, 60)
    assert governor.modes() == {"launch": "full"}


def test_a_budget_can_be_switched_off(world: Any, named: Any) -> None:
    here = world({LAUNCH: lambda t: HOT * t})
    governor = here.governor((named("launch"),), BudgetConfig(enabled=False))
    here.run(governor, 60)
    assert governor.modes() == {"launch": "full"}


def test_modes_shares_and_trap_costs_are_metrics(world: Any, named: Any) -> None:
    here = world({LAUNCH: lambda t: HOT * t})
    governor = here.governor((named("launch"),), BudgetConfig())
    here.run(governor, 60)
    estimate = governor.estimate(LAUNCH, here.read()[LAUNCH])
    levels = {(each.metric, each.labels): each.value for each in governor.levels()}
    own = (("probe", "cuda"), ("function", "launch"))
    assert levels["stallwatch_probe_mode", (*own, ("mode", "duty"))] == 1
    assert levels["stallwatch_probe_overhead_ratio", own] > 0
    error = estimate.bound / estimate.values[0]
    assert levels["stallwatch_probe_error_ratio", own] == pytest.approx(error)
    assert levels["stallwatch_probe_trap_seconds", (("kind", "exit"),)] == 5e-6


def test_a_process_that_has_ended_is_forgotten(world: Any, named: Any) -> None:
    here = world({LAUNCH: lambda t: HOT * t})
    governor = here.governor((named("launch"),), BudgetConfig())
    here.run(governor, 60)
    assert governor.is_estimated(LAUNCH)
    governor.forget(ONE)
    assert not governor.is_estimated(LAUNCH)
