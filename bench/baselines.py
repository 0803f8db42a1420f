"""A dry-run with `anomaly_score` beside the same dry-run without. Prints one line of JSON.

    python -m bench.baselines [--series N] [--days N] [--workers N]

A week of 1,000 series at 10 s, in memory, and one rule with a threshold of its own, with and
without a score beside it; one run after the other. `seconds` are those of the wall clock,
`cpu_seconds` those of all processes, `ratio` and `cpu_ratio` the one run over the other,
`cpu_microseconds_per_point` what the score adds for each sample. `state_bytes` is what a series
takes in a snapshot before it is deflated, `snapshot_bytes` what it takes in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.baselines.fold import Fold
from engine.baselines.points import Points
from engine.baselines.settings import BaselineSettings
from engine.baselines.snapshot import encode
from engine.dataset.dataset import MemoryDataset
from engine.labels import Labels
from engine.pipeline.replay import replay
from engine.promql.blocks import workers_at_hand
from engine.promql.context import Options
from engine.rulegroup.options import GroupOptions
from engine.series import Series
from rules.loader import load_paths
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.pipeline.replay import ReplayResult
    from rules.model import RuleFile

STEP_MS = 10_000
DAY_STEPS = 86_400_000 // STEP_MS
START_MS = 1_700_000_000_000 // 86_400_000 * 86_400_000
RULE = """
groups:
  - name: g
    rules:
      - alert: High
        expr: {expr}
"""
WITHOUT = "step_time_seconds > 1.6"
WITH = "step_time_seconds > 1.6 and anomaly_score(step_time_seconds) >= 0.5"


@dataclass(frozen=True, slots=True)
class Run:
    """One dry-run; `cpu_seconds` are those of its forks, too."""

    seconds: float
    cpu_seconds: float
    result: ReplayResult


def series(count: int, steps: int) -> MemoryDataset:
    """Noise about a level, with a slow wave and now and then a burst."""
    rng = np.random.default_rng(1)
    times = START_MS + np.arange(steps, dtype=np.int64) * STEP_MS
    wave = np.sin(np.arange(steps) * (2 * np.pi / DAY_STEPS)) * 0.1
    found = []
    for number in range(count):
        values = 1.0 + wave + rng.normal(scale=0.05, size=steps)
        at = int(rng.integers(steps))
        values[at : at + 60] += 1.0
        labels = Labels.of(__name__="step_time_seconds", task_id="t", rank=f"{number:04}")
        found.append(Series(labels, times, values))
    return MemoryDataset(tuple(found))


def timed(files: Sequence[RuleFile], data: MemoryDataset, workers: int) -> Run:
    """One dry-run."""
    began, used = time.perf_counter(), sum(os.times()[:4])
    result = replay(files, data, options=GroupOptions(engine=Options(workers=workers)))
    return Run(time.perf_counter() - began, sum(os.times()[:4]) - used, result)


def rules(expr: str, folder: Path) -> Sequence[RuleFile]:
    """One rule."""
    path = folder / "rules.yaml"
    path.write_text(RULE.format(expr=expr))
    return load_paths([path])


def sizes(data: MemoryDataset) -> tuple[int, int]:
    """What a series takes in a snapshot, as it is and deflated."""
    fold = Fold(BaselineSettings())
    some = data.series[:50]
    points = [
        Points((one.labels, False), one.timestamps_ms[:DAY_STEPS], one.values[:DAY_STEPS])
        for one in some
    ]
    fold.take(points, int(points[0].times_ms[-1]), 0)
    plain = sum(len(one.model.state()) for one in fold.elements.values())
    return plain // len(some), len(encode({"x": fold})) // len(some)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--days", type=float, default=7)
    parser.add_argument("--workers", type=int, default=workers_at_hand())
    args = parser.parse_args()
    steps = int(args.days * DAY_STEPS)
    data = series(args.series, steps)
    with tempfile.TemporaryDirectory(prefix="stallwatch-bench-") as name:
        plain = timed(rules(WITHOUT, Path(name)), data, args.workers)
        scored = timed(rules(WITH, Path(name)), data, args.workers)
    points = args.series * steps
    state_bytes, snapshot_bytes = sizes(data)
    found = {
        "series": args.series,
        "days": args.days,
        "workers": args.workers,
        "seconds": {"without": round(plain.seconds, 2), "with": round(scored.seconds, 2)},
        "cpu_seconds": {
            "without": round(plain.cpu_seconds, 2),
            "with": round(scored.cpu_seconds, 2),
        },
        "ratio": round(scored.seconds / plain.seconds, 1),
        "cpu_ratio": round(scored.cpu_seconds / plain.cpu_seconds, 1),
        "cpu_microseconds_per_point": round(
            (scored.cpu_seconds - plain.cpu_seconds) / points * 1e6, 2
        ),
        "alerts": {"without": len(plain.result.alerts), "with": len(scored.result.alerts)},
        "state_bytes": state_bytes,
        "snapshot_bytes": snapshot_bytes,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
