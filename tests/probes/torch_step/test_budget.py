from __future__ import annotations

from typing import Any

from probes.budget.settings import BudgetConfig
from probes.torch_step.budget import Budget
from probes.torch_step.thread import GROUPS, NVTX, WAITS


class Sites:
    """Takes what is asked of it."""

    def resume(self, name: str) -> None:
        pass


def test_a_wait_is_doubted_after_a_gap_in_what_waits_need_and_in_nothing_else() -> None:
    gaps: list[int] = []
    sites: Any = Sites()
    members = {name: (name,) for name in GROUPS}
    budget = Budget(sites, members, BudgetConfig(), gaps.append)
    budget.resume(NVTX)
    assert gaps == []
    budget.resume(WAITS)
    assert len(gaps) == 1
    budget.close()
