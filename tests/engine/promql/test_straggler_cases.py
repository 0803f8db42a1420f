"""Real stragglers of other clusters: who is found, from which step on, and nobody else.

Each job is written as one metric per rank, a step every 10 s, and judged by the expression that
docs/statistics.md gives. `pytest -s` prints what was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from engine.dataset.dataset import MemoryDataset
from engine.labels import Labels
from engine.promql.engine import evaluate
from engine.promql.value import Axis, Vector
from engine.series import Series
from rules.promql.parser import parse

if TYPE_CHECKING:
    from pathlib import Path

SPACING_MS = 10_000
PERSISTENT = "count_over_time((straggler_score by ({}) ({}) > 3)[1m:10s]) >= 5"
COMPUTE = ("forward-compute", "backward-compute")


@dataclass(frozen=True)
class Job:
    """`times`: of each rank, [steps, ranks], NaN where one has none; `labels`: of each rank."""

    times: pd.DataFrame
    labels: tuple[dict[str, str], ...]

    def found(self, expr: str) -> dict[str, list[int]]:
        """The ranks that an expression gives, with the steps at which it does, from 0."""
        steps = np.arange(len(self.times), dtype=np.int64) * SPACING_MS
        series = []
        for column, labels in zip(self.times, self.labels, strict=True):
            values = self.times[column].to_numpy(dtype=np.float64)
            here = np.isfinite(values)
            name = Labels.of(__name__="step_time_seconds", task_id="job", **labels)
            series.append(Series(name, steps[here], values[here]))
        data = MemoryDataset(tuple(sorted(series, key=lambda one: one.labels)))
        result = evaluate(parse(expr), Axis(steps, SPACING_MS), data).value
        assert isinstance(result, Vector)
        rows = zip(result.labels, result.present, strict=True)
        return {labels.get("rank"): np.flatnonzero(row).tolist() for labels, row in rows}

    def persistent(self, group: str = "task_id") -> dict[str, list[int]]:
        return self.found(PERSISTENT.format(group, "step_time_seconds"))


def alibaba(shared: Path, number: int) -> Job:
    path = shared / "cases" / "straggler" / f"alibaba-job{number}.csv"
    if not path.exists():
        pytest.skip(f"no {path}")
    read = pd.read_csv(path)
    table = read.pivot_table(index="time", columns="worker", values="batch_time_norm")
    return Job(table, tuple({"rank": str(worker)} for worker in table))


def bytedance(shared: Path, *operations: str) -> Job:
    """The time that each rank spends in some operations, by step."""
    path = shared / "cases" / "straggler" / "bytedance-AR.parquet"
    if not path.exists():
        pytest.skip(f"no {path}")
    read = pd.read_parquet(path)
    read = read[read["optype"].isin(operations)].assign(
        stage=read["stage"].astype(str), rank=read["rank"].astype(str)
    )
    table = read.pivot_table(
        index="step", columns=["stage", "rank"], values="duration", aggfunc="sum"
    )
    known = table.columns.to_frame(index=False)
    both = zip(known["stage"], known["rank"], strict=True)
    return Job(table, tuple({"pp_stage": stage, "rank": rank} for stage, rank in both))


def told(name: str, job: Job, group: str = "task_id") -> dict[str, list[int]]:
    """What is found; and a line of the table."""
    found = job.persistent(group)
    slower = job.found(f"straggler_slowdown by ({group}) (step_time_seconds) > 1.1")
    for rank, steps in found.items() or [("nobody", [])]:
        first = f"from step {steps[0]} on, {len(steps)} steps" if steps else ""
        print(f"| {name} | {group} | {len(job.times)} | {rank} | {first} |")
    assert slower.keys() >= found.keys()
    return found


def test_the_one_slow_worker_is_found_within_five_steps_and_no_other(shared: Path) -> None:
    job = alibaba(shared, 1)
    found = told("alibaba 1", job)
    assert found.keys() == {"6"}
    # Its first mini-batch that takes half as long again as its peers'.
    began = job.found("straggler_slowdown by (task_id) (step_time_seconds) > 1.5")["6"][0]
    assert 0 < found["6"][0] - began <= 5


def test_a_clean_job_has_none_although_its_workers_differ(shared: Path) -> None:
    assert told("alibaba 2", alibaba(shared, 2)) == {}


def test_the_slow_rank_of_a_pipeline_is_found_among_its_stage_from_the_start(
    shared: Path,
) -> None:
    job = bytedance(shared, *COMPUTE)
    found = told("bytedance AR, compute", job, "task_id, pp_stage")
    assert found.keys() == {"0"}
    assert found["0"] == list(range(4, len(job.times)))


def test_stages_in_one_pool_would_accuse_the_innocent(shared: Path) -> None:
    # The first stage holds the embeddings and gathers more than twice as much.
    job = bytedance(shared, "params-all-gather")
    assert told("bytedance AR, all-gather", job, "task_id").keys() == {"0", "4", "8", "12"}
    assert told("bytedance AR, all-gather", job, "task_id, pp_stage") == {}
