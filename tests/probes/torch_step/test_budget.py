from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from probes.budget.settings import BudgetConfig
from probes.torch_step.budget import GOVERNED, Budget
from probes.torch_step.thread import FLIGHTS, GROUPS, NVTX, REDUCER, WAITS

if TYPE_CHECKING:
    from collections.abc import Iterator


class Sites:
    """Takes what is asked of it, and remembers what is detached."""

    def __init__(self) -> None:
        self.suspended: set[str] = set()

    def suspend(self, name: str) -> None:
        self.suspended.add(name)

    def resume(self, name: str) -> None:
        self.suspended.discard(name)

    def attached(self, name: str) -> int:
        return int(name not in self.suspended)


@pytest.fixture
def gaps() -> list[int]:
    return []


@pytest.fixture
def budget(gaps: list[int]) -> Iterator[Budget]:
    sites: Any = Sites()
    found = Budget(sites, {name: (name,) for name in GROUPS}, BudgetConfig(), gaps.append)
    yield found
    found.close()


def slices(budget: Budget, name: str) -> list[Any]:
    (control,) = (each._controls[name] for each in budget._governors if name in each._controls)
    control.mode = "duty"
    return control.slices


def test_each_group_of_the_kernel_is_governed_once() -> None:
    assert sorted(group for each in GOVERNED.values() for group in each) == sorted(GROUPS)


def test_what_is_not_in_a_slice_now_is_let_go(budget: Budget) -> None:
    assert budget.let_go == frozenset()
    open_ = slices(budget, WAITS)
    assert budget.let_go == {WAITS, FLIGHTS}
    open_.append("a slice")
    assert budget.let_go == frozenset()
    assert budget.modes[WAITS] == "duty"


def test_a_wait_is_doubted_after_a_gap_in_what_waits_need_and_in_nothing_else(
    budget: Budget, gaps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, doubted in ((NVTX, 0), (WAITS, 1)):
        open_ = slices(budget, name)
        for governor in budget._governors:
            monkeypatch.setattr(governor, "poll", lambda _, open_=open_: open_.append("a slice"))
        budget.poll(lambda: None)
        assert len(gaps) == doubted


@pytest.mark.parametrize(
    ("sliced", "stands"), [((), False), ((WAITS,), True), ((WAITS, REDUCER), False)]
)
def test_a_share_stands_only_while_nothing_but_slices_is_missed(
    budget: Budget, sliced: tuple[str, ...], stands: bool
) -> None:
    for name in sliced:
        slices(budget, name)
    assert budget.in_slices is stands
