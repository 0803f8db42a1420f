"""The live tick: 100 rules over 10,000 series, on one core. Prints one line of JSON.

    python -m bench.tick [--series N] [--rules N] [--ticks N] [--profile]

A flush enters the window, then every group is evaluated and committed, as in the agent. `tick` is
the fastest tick and `median` the usual one, in seconds of CPU time, since a busy machine must not
be taken for a slow program; the parts are those of the median.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.flush import Flush
from engine.labels import Labels
from engine.promql.engine import evaluate
from engine.rulegroup.options import GroupOptions
from engine.rulegroup.runner import GroupRunner
from engine.state import StateDb
from engine.store import Store
from rules.loader import load_paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.random import Generator

    from engine.promql.engine import Options
    from engine.promql.value import Axis, Result
    from engine.series import Queryable
    from rules.promql.ast import Expr

STEP_MS = 10_000
START_MS = 1_767_290_400_000
RANKS_OF_TASK = 8
METRICS = tuple(f"metric_{number}_total" for number in range(10))
# The kinds that packs are made of: rates, shares, means, comparisons with the task's other ranks.
TEMPLATES = (
    ("record", "task:{m}:rate5m", "sum by (task_id) (rate({m}[5m]))"),
    ("alert", "High_{m}", "rate({m}[5m]) > {c}e9"),
    ("alert", "Ratio_{m}", "sum by (task_id) (rate({m}[2m])) / sum by (task_id) ({m}) > {c}"),
    ("alert", "Mean_{m}", "avg_over_time({m}[5m]) > {c}e12"),
    ("alert", "Straggler_{m}", "{m} > on (task_id) group_left () {c} * avg by (task_id) ({m})"),
    ("alert", "Peak_{m}", "max_over_time({m}[10m]) > {c}e12"),
    ("alert", "Missing_{m}", "count by (task_id) ({m}) < count by (task_id) ({m} offset 5m)"),
    ("record", "node:{m}:max", "max by (node) ({m})"),
    ("alert", "Some_{m}", '{m}{{rank="0", task_id="task-001"}} > 0'),
    ("alert", "Unsteady_{m}", "stddev_over_time({m}[5m]) > {c}e12"),
)


def pack(rules: int) -> str:
    """A rule file: ten groups of rules over ten metrics."""
    lines = ["groups:"]
    for number in range(rules):
        metric = METRICS[number % len(METRICS)]
        kind, name, expr = TEMPLATES[number // len(METRICS) % len(TEMPLATES)]
        if number % len(METRICS) == 0:
            lines += [f"  - name: group-{number // len(METRICS)}", "    rules:"]
        lines.append(f"      - {kind}: {name.format(m=metric)}")
        lines.append(f"        expr: {expr.format(m=metric, c=3)}")
        if kind == "alert":
            lines += ["        for: 1m", "        annotations:"]
            lines.append("          summary: '{{ $labels.task_id }} is at {{ $value | humanize }}'")
    return "\n".join(lines) + "\n"


def flushes(series: int, random: Generator) -> Iterator[Flush]:
    """All series at every flush, each a counter."""
    ranks = series // len(METRICS)
    labels = tuple(
        Labels(
            {
                "__name__": metric,
                "task_id": f"task-{rank // RANKS_OF_TASK:03}",
                "rank": str(rank % RANKS_OF_TASK),
                "node": f"node-{rank // RANKS_OF_TASK:03}",
                "cluster": "bench",
            }
        )
        for metric in METRICS
        for rank in range(ranks)
    )
    values = random.random(len(labels))
    for tick in range(10_000):
        values = values + random.random(len(labels))
        yield Flush(START_MS + tick * STEP_MS, labels, values)


class Evaluation:
    """Evaluates and adds up for how long."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, expr: Expr, axis: Axis, queryable: Queryable, options: Options) -> Result:
        """See `engine.promql.engine.evaluate`."""
        began = time.process_time()
        try:
            return evaluate(expr, axis, queryable, options)
        finally:
            self.seconds += time.process_time() - began


def run(arguments: argparse.Namespace, folder: Path) -> dict[str, float | int]:
    """All ticks; the figures."""
    rules = folder / "rules.yaml"
    rules.write_text(pack(arguments.rules), encoding="utf-8")
    evaluation = Evaluation()
    options = replace(GroupOptions(), evaluate=evaluation)
    runners = [
        GroupRunner(group, options) for file in load_paths([str(rules)]) for group in file.groups
    ]
    store, state = Store(), StateDb.open(folder / "state.db")
    coming = flushes(arguments.series, np.random.default_rng(1))
    for _ in range(180):  # half an hour, so that windows are full
        store.append(next(coming))
    ticks = []
    profile = cProfile.Profile(time.process_time)
    for number in range(arguments.ticks + 2):
        warm = number >= 2  # caches are filled by then
        if warm and arguments.profile:
            profile.enable()
        ticks.append(_tick(runners, store, state, next(coming), evaluation))
        profile.disable()
    if arguments.profile:
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(40)
    state.close()
    return _figures(arguments, ticks[2:])


def _tick(
    runners: Sequence[GroupRunner],
    store: Store,
    state: StateDb,
    flush: Flush,
    evaluation: Evaluation,
) -> dict[str, float]:
    evaluation.seconds = 0.0
    began = time.process_time()
    store.append(flush)
    stored = time.process_time()
    committing = 0.0
    for runner in runners:
        done = runner.evaluate(flush.timestamp_ms, store, store)
        before = time.process_time()
        state.commit([runner.state], done.transitions, samples=done.samples)
        committing += time.process_time() - before
    total = time.process_time() - began
    parts = {"store": stored - began, "evaluate": evaluation.seconds, "commit": committing}
    return {"tick": total, **parts, "state": total - sum(parts.values())}


def _figures(
    arguments: argparse.Namespace, ticks: Sequence[dict[str, float]]
) -> dict[str, float | int]:
    ordered = sorted(ticks, key=lambda tick: tick["tick"])
    usual = ordered[len(ordered) // 2]
    found: dict[str, float | int] = {
        "series": arguments.series,
        "rules": arguments.rules,
        "tick": round(ordered[0]["tick"], 4),
        "median": round(statistics.median(tick["tick"] for tick in ticks), 4),
    }
    found |= {name: round(usual[name], 4) for name in ("store", "evaluate", "state", "commit")}
    return found


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--rules", type=int, default=100)
    parser.add_argument("--ticks", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    with tempfile.TemporaryDirectory(prefix="stallwatch-tick-") as folder:
        print(json.dumps(run(parser.parse_args(), Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
