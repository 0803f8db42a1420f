"""The data set that all sides get: counters and gauges of training jobs, the same every time.

Nominal sample times are 5 s off the multiples of 10 s at which rules are evaluated, and jitter
stays below that, so that no window's edge falls on a sample: there Prometheus 2 and 3 differ.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.dataset.parquet_form import write_parquet
from engine.labels import Labels
from engine.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.random import Generator

    from engine.series import BoolArray, Float64Array, Int64Array

COUNTER = "comm_bytes_total"
GAUGE = "step_seconds"
STEP_MS = 10_000
# A multiple of 54 h since 1970, where Prometheus cuts blocks: one block is its best case.
START_MS = 1_767_290_400_000
JITTER_MS = 3_000
RANKS_OF_TASK = 10
RANKS_OF_NODE = 8


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """`counters` and `gauges`, one each per rank, and the axis on which rules are evaluated."""

    counters: tuple[Series, ...]
    gauges: tuple[Series, ...]
    start_ms: int
    end_ms: int

    @property
    def samples(self) -> int:
        """How many there are in all."""
        return sum(one.values.size for one in (*self.counters, *self.gauges))


def make(ranks: int, hours: float, seed: int = 3) -> DataSet:
    """Samples of `ranks` counters and as many gauges, every 10 s.

    Every second node is scraped with jitter, each of its series at times of its own; the other
    nodes' series share their times, but for what is missing: a fifth of the nodes has gaps, a
    tenth of the ranks lacks single samples.
    """
    random = np.random.default_rng(seed)
    steps = round(hours * 3_600_000) // STEP_MS
    nominal = START_MS + STEP_MS // 2 + STEP_MS * np.arange(steps, dtype=np.int64)
    counters: list[Series] = []
    gauges: list[Series] = []
    up = np.ones(steps, dtype=bool)
    for rank in range(ranks):
        node = rank // RANKS_OF_NODE
        if rank % RANKS_OF_NODE == 0:
            up = _up(random, steps)
        seen = up & (random.random(steps) > 0.002) if random.random() < 0.1 else up
        labels = {
            "task_id": f"task-{rank // RANKS_OF_TASK:03}",
            "rank": str(rank % RANKS_OF_TASK),
            "node": f"node-{node:03}",
        }
        for name, values, found in (
            (COUNTER, _counter(random, steps), counters),
            (GAUGE, _gauge(random, steps), gauges),
        ):
            times = nominal
            if node % 2:
                times = nominal + random.integers(-JITTER_MS, JITTER_MS + 1, steps)
            own = Labels({"__name__": name, **labels})
            found.append(Series(own, times[seen], values[seen]))
    return DataSet(tuple(counters), tuple(gauges), START_MS + STEP_MS, START_MS + STEP_MS * steps)


def _spans(random: Generator, steps: int, count: int, longest: int) -> BoolArray:
    """True within `count` stretches at random places, each of 3 to `longest` steps."""
    inside = np.zeros(steps, dtype=bool)
    for _ in range(count):
        first = int(random.integers(0, steps))
        inside[first : first + int(random.integers(3, longest))] = True
    return inside


def _up(random: Generator, steps: int) -> BoolArray:
    """When a node was scraped: mostly always, else with gaps of 30 s to 20 min."""
    gaps = int(random.integers(1, 4)) if random.random() < 0.2 else 0
    return ~_spans(random, steps, gaps, 120)


def _counter(random: Generator, steps: int) -> Float64Array:
    """Bytes sent: busy most of the time, with bursts, silence, and a restart now and then.

    It begins, and begins anew, so far above zero that no rate is extrapolated down to zero: after
    a gap Prometheus 2 and 3 do that differently.
    """
    base = random.lognormal(13, 0.7)
    pace = base * random.gamma(20, 1 / 20, steps)
    pace[_spans(random, steps, int(random.poisson(6)), 40)] *= 20
    pace[_spans(random, steps, int(random.poisson(3)), 90)] = 0
    total = np.floor(np.cumsum(pace * STEP_MS / 1000) + base * random.uniform(1e4, 1e6))
    for restart in np.sort(random.integers(1, steps, int(random.poisson(0.7)))).tolist():
        total[restart:] -= total[restart - 1] - np.floor(base * random.uniform(500, 1_000))
    return total


def _gauge(random: Generator, steps: int) -> Float64Array:
    """Seconds a training step takes: noise about a level, slow stretches; a few never change."""
    level = random.uniform(0.2, 2)
    if random.random() < 0.02:
        return np.full(steps, round(level, 4))
    noise = random.normal(1, 0.05, steps)
    drift = 1 + 0.1 * np.sin(np.arange(steps) / random.uniform(200, 2_000))
    seconds = level * drift * np.abs(noise)
    slow = _spans(random, steps, int(random.poisson(4)), 60)
    seconds[slow] *= random.uniform(2, 10)
    return np.round(seconds, 4)


def write_as_parquet(data: DataSet, folder: Path) -> None:
    """`counters.parquet`, `gauges.parquet`, and `all.parquet` with both."""
    for name, series in (
        ("counters", data.counters),
        ("gauges", data.gauges),
        ("all", data.counters + data.gauges),
    ):
        write_parquet(str(folder / f"{name}.parquet"), series)


def write_as_openmetrics(data: DataSet, path: Path) -> None:
    """One file for `promtool tsdb create-blocks-from openmetrics`.

    promtool cuts seconds off to milliseconds, and a float64 cannot hold every millisecond: a fifth
    of one is added, so that what is cut off is never the millisecond itself.
    """
    with path.open("w", encoding="ascii") as file:
        for kind, name, series in (
            ("counter", COUNTER.removesuffix("_total"), data.counters),
            ("gauge", GAUGE, data.gauges),
        ):
            file.write(f"# TYPE {name} {kind}\n")
            for one in series:
                head = one.labels.spelled(",") + " "
                lines = zip(
                    map(_text, one.values.tolist()), _seconds(one.timestamps_ms), strict=True
                )
                file.write("".join([f"{head}{value} {time}\n" for value, time in lines]))
        file.write("# EOF\n")


def _text(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _seconds(times_ms: Int64Array) -> list[str]:
    whole, rest = np.divmod(times_ms, 1000)
    return [f"{a}.{b:03}2" for a, b in zip(whole.tolist(), rest.tolist(), strict=True)]


def import_lines(series: Sequence[Series], at_once: int = 50) -> Iterator[bytes]:
    """Bodies for VictoriaMetrics' /api/v1/import: a line of JSON for each series."""
    for first in range(0, len(series), at_once):
        lines = [
            json.dumps(
                {
                    "metric": one.labels.to_dict(),
                    "values": one.values.tolist(),
                    "timestamps": one.timestamps_ms.tolist(),
                }
            )
            for one in series[first : first + at_once]
        ]
        yield "\n".join(lines).encode()
