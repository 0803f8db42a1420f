"""A replay has the same outcome when forks evaluate rules ahead of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.dataset.dataset import MemoryDataset
from engine.labels import Labels
from engine.pipeline.ahead import Job, shared_out
from engine.pipeline.replay import replay
from engine.promql.context import Options
from engine.promql.forks import computed
from engine.promql.sharing import Sharing
from engine.promql.value import Axis
from engine.rulegroup.options import GroupOptions
from engine.series import Series
from rules.loader import load_paths
from rules.promql.parser import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

RULES = """\
groups:
- name: a
  interval: 10s
  rules:
  - {record: "task:x:rate", expr: "sum by (task_id) (rate(x_total[1m]))"}
  - {alert: Fast, expr: "rate(x_total[1m]) > 4.5", for: 30s}
  - {alert: FastTask, expr: "task:x:rate > 10"}
  - {alert: Many, expr: "sum by (task_id) (rate(x_total[1m])) > 14"}
  - {alert: Watched, expr: 'ALERTS{alertname="Many", alertstate="firing"}'}
  - {alert: Broken, expr: "x_total + on (task_id) x_total > 0"}
  - {alert: Uneven, expr: "stddev_over_time(y[2m]) > 3"}
- name: b
  interval: 30s
  query_offset: 20s
  rules:
  - {alert: Slow, expr: "quantile_over_time(0.2, y[3m]) < 1"}
"""


@pytest.fixture
def data() -> MemoryDataset:
    random = np.random.default_rng(11)
    times = np.arange(0, 3_600_000, 10_000, dtype=np.int64)
    found = []
    for number in range(12):
        labels = Labels.of(__name__="x_total", task_id=f"t{number % 3}", rank=f"{number:02}")
        found.append(
            Series(labels, times, np.cumsum(random.integers(0, 80, times.size)).astype(np.float64))
        )
        labels = Labels.of(__name__="y", task_id=f"t{number % 3}", rank=f"{number:02}")
        found.append(Series(labels, times, random.normal(5, 2.5, times.size)))
    return MemoryDataset(tuple(sorted(found, key=lambda one: one.labels)))


def test_the_outcome_is_that_of_one_process(
    data: MemoryDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    files = load_paths([path])
    shared = []

    def counted(one: Callable[[int], object], owners: Sequence[int]) -> Iterator[object]:
        shared.append(set(owners))
        return computed(one, owners)

    monkeypatch.setattr("engine.pipeline.ahead.computed", counted)
    alone = replay(files, data, options=GroupOptions(engine=Options()))
    assert not shared
    together = replay(
        files, data, options=GroupOptions(engine=Options(workers=2, fork_cells=1_000))
    )
    assert shared == [{0, 1}]
    assert together.alerts == alone.alerts
    assert together.failures == alone.failures
    assert together.evaluations == alone.evaluations
    names = {alert.labels.get("alertname") for alert in alone.alerts}
    assert names == {"Fast", "FastTask", "Many", "Watched", "Uneven", "Slow"}
    assert alone.failures


def test_what_shares_parts_stays_together_and_work_is_spread() -> None:
    texts = [
        "rate(x_total[1m]) > 1",
        "deriv(y[1m])",
        "sum(rate(x_total[1m]))",
        "stddev_over_time(y[5m])",
        "quantile_over_time(0.5, y[5m])",
    ]
    trees = tuple(parse(text) for text in texts)
    jobs = [Job(tree, Axis.instant(0)) for tree in trees]
    owners = shared_out(jobs, Sharing(trees), 2)
    assert owners[0] == owners[2]
    assert owners[1] != owners[3]
    assert set(shared_out(jobs, None, 1)) == {0}
