"""Several probes watch one process, and together they keep one budget."""

from __future__ import annotations

from typing import Any

import pytest

from engine.readings import Process
from probes.budget.pool import Pool
from probes.budget.settings import BudgetConfig

ONE = Process(7, 90_000)
# Of one core, with 5 µs a trap: 10 %, and 0.05 %.
HOT, COOL = 20_000.0, 100.0


def taken(here: Any, since: float, before: dict[Any, float]) -> float:
    traps = sum(count - before.get(key, 0.0) for key, count in here.raw.items())
    return float(traps * 5e-6 / (here.now - since))


def test_two_probes_that_are_too_hot_take_one_budget_together(world: Any, named: Any) -> None:
    here = world({("launch", ONE): lambda t: HOT * t, ("reduce", ONE): lambda t: HOT * t})
    cuda, nccl = (
        here.governor((named(name),), BudgetConfig(ladder=("duty",)))
        for name in ("launch", "reduce")
    )
    here.run(cuda, 100, nccl)
    before, since = dict(here.raw), here.now
    here.run(cuda, 600, nccl)
    assert cuda.modes() | nccl.modes() == {"launch": "duty", "reduce": "duty"}
    assert 0.005 < taken(here, since, before) < 0.01


def test_a_probe_that_wants_little_is_watched_all_the_time_beside_a_hot_one(
    world: Any, named: Any
) -> None:
    here = world({("launch", ONE): lambda t: HOT * t, ("step", ONE): lambda t: COOL * t})
    cuda, torch = (here.governor((named(name),), BudgetConfig()) for name in ("launch", "step"))
    here.run(cuda, 300, torch)
    assert cuda.modes() | torch.modes() == {"launch": "duty", "step": "full"}


def test_of_two_probes_that_are_watched_whole_or_not_at_all_one_stays_where_there_is_room(
    world: Any, named: Any
) -> None:
    # 0.8 % each; the first one that makes way has made room enough.
    here = world({(name, ONE): lambda t: 1600 * t for name in ("wait", "step")})
    nccl, torch = (
        here.governor((named(name),), BudgetConfig(ladder=())) for name in ("wait", "step")
    )
    for _ in range(12):
        before, since = dict(here.raw), here.now
        here.run(nccl, 300, torch)
        assert "full" in {**nccl.modes(), **torch.modes()}.values()
        assert 0.005 < taken(here, since, before) < 0.01
    # The other is looked at now and then, and the one that is watched does not make way for that.
    assert torch.modes() == {"step": "full"}
    assert {name for _, name, _ in here.changes} == {"wait"}


def test_what_a_probe_took_is_left_to_others_when_it_ends(world: Any, named: Any) -> None:
    # 0.7 % each: together too much, alone not.
    loads = {(name, ONE): lambda t: 1400 * t for name in ("launch", "reduce")}
    here = world(loads)
    cuda, nccl = (here.governor((named(name),), BudgetConfig()) for name in ("launch", "reduce"))
    here.run(cuda, 60, nccl)
    assert cuda.modes() == {"launch": "duty"}
    nccl.close()
    here.run(cuda, 1, cuda)
    allowed = here.pool.allowed(cuda, ONE, {"launch": 0.007}, 0.01)
    assert allowed["launch"] >= 0.007


def test_a_larger_ratio_of_one_probe_leaves_all_within_it() -> None:
    pool = Pool()
    pool.tell("cuda", {ONE: {"launch": 0.1}})
    pool.tell("own", {ONE: {"mine": 0.1, "other": 0.002}})
    small = pool.allowed("cuda", ONE, {"launch": 0.1}, 0.01)
    large = pool.allowed("own", ONE, {"mine": 0.1, "other": 0.002}, 0.03)
    assert small["launch"] == pytest.approx(0.004)
    assert small["launch"] + large["mine"] + 0.002 <= 0.03
    assert large["other"] >= 0.002


def test_a_process_that_ended_is_forgotten() -> None:
    pool = Pool()
    pool.tell("nccl", {ONE: {"reduce": 0.1}})
    pool.forget("nccl", ONE)
    assert pool.allowed("cuda", ONE, {"launch": 0.1}, 0.01) == {"launch": 0.01}
