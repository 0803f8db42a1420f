"""Do results agree, per series and step, before anything is timed?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.peers.data import STEP_MS
from bench.peers.packages import Failure
from bench.peers.servers import matrix
from engine.dataset.opening import open_data
from engine.promql.engine import Options, evaluate
from engine.promql.value import Axis, Vector
from rules.promql.parser import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.peers.data import DataSet
    from bench.peers.rows import Row
    from bench.peers.servers import Server
    from engine.series import BoolArray, Float64Array

RELATIVE = 1e-9
# Of an answer, so that no JSON document gets larger than a few dozen megabytes.
STEPS_AT_ONCE = 720


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far another's results are from ours. `results`: elements, series times steps."""

    row: str
    server: str
    results: int
    worst: float

    def __str__(self) -> str:
        return (
            f"{self.row}: {self.results:,} results agree with {self.server}, "
            f"worst {self.worst:.1e} relative"
        )


def agree(row: Row, data: DataSet, folder: Path, servers: Sequence[Server]) -> list[Agreement]:
    """Compare all results of a row with each server's. Raises Failure where they differ."""
    dataset = open_data(str(folder / f"{row.data}.parquet"))
    axis = Axis.span(data.start_ms, data.end_ms, STEP_MS)
    ours = evaluate(parse(row.checked), axis, dataset, Options()).value
    if not isinstance(ours, Vector):
        raise Failure(f"{row.name}: gives no vector")
    places = {key(labels.to_dict()): place for place, labels in enumerate(ours.labels)}
    found = []
    for server in servers:
        results, worst = 0, 0.0
        for first in range(0, axis.times_ms.size, STEPS_AT_ONCE):
            times = axis.times_ms[first : first + STEPS_AT_ONCE]
            answer = matrix(server.query_range(row.checked, int(times[0]), int(times[-1]), STEP_MS))
            part = slice(first, first + times.size)
            theirs, present = _spread(answer, places, times, f"{row.name}: {server.name}")
            where = f"{row.name} at {times[0]}: ours and {server.name}'s"
            worst = max(
                worst, _worst(ours.values[:, part], ours.present[:, part], theirs, present, where)
            )
            results += int(present.sum())
        found.append(Agreement(row.name, server.name, results, worst))
    return found


def key(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Labels less the metric's name: VictoriaMetrics keeps it where Prometheus does not."""
    return tuple(sorted(pair for pair in labels.items() if pair[0] != "__name__"))


def _spread(
    answer: Sequence[Mapping[str, Any]],
    places: Mapping[tuple[tuple[str, str], ...], int],
    times: Any,
    where: str,
) -> tuple[Float64Array, BoolArray]:
    """An answer as our arrays have it: [series, step]."""
    values = np.zeros((len(places), times.size))
    present = np.zeros(values.shape, dtype=bool)
    for series in answer:
        place = places.get(key(series["metric"]))
        if place is None:
            raise Failure(f"{where} has a series that ours lacks: {series['metric']}")
        seconds, texts = zip(*series["values"], strict=True)
        steps = (np.rint(np.array(seconds) * 1000).astype(np.int64) - times[0]) // STEP_MS
        values[place, steps] = np.array(texts, dtype=np.float64)
        present[place, steps] = True
    return values, present


def _worst(
    ours: Float64Array,
    ours_present: BoolArray,
    theirs: Float64Array,
    theirs_present: BoolArray,
    where: str,
) -> float:
    """The largest relative difference. Raises Failure beyond RELATIVE, and for one-sided ones."""
    if not np.array_equal(ours_present, theirs_present):
        place, step = np.argwhere(ours_present != theirs_present)[0]
        raise Failure(f"{where}: series {place}, step {step} is there on one side only")
    gaps = np.abs(ours - theirs)[ours_present]
    sizes = np.maximum(np.abs(ours), np.abs(theirs))[ours_present]
    relative = np.divide(gaps, sizes, out=np.zeros_like(gaps), where=sizes != 0)
    worst = float(relative.max(initial=0))
    if not worst <= RELATIVE:
        at = int(np.argmax(relative))
        mine, other = ours[ours_present][at], theirs[ours_present][at]
        raise Failure(f"{where}: {mine!r} and {other!r} differ by {worst:.2e}")
    return worst
