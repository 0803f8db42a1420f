"""anomaly_score over data with long gaps: what is skipped has no points, and costs nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.baselines.fold import Fold
from engine.baselines.folds import PIECE_MS, Folds
from engine.baselines.points import Points
from engine.baselines.settings import BaselineSettings
from engine.dataset.dataset import MemoryDataset
from engine.labels import Labels
from engine.promql.engine import Options, evaluate
from engine.promql.errors import EvaluationError
from engine.promql.value import Axis, Vector
from engine.series import Series
from rules.promql.parser import parse

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
RESOLUTION_MS = 60_000
YEAR_MS = 365 * 24 * HOUR_MS

ARGUMENTS = (
    "x + 0",
    "rate(x[10m])",
    "sum(x) by (i)",
    "x offset 9h",
    "max_over_time((x + 0)[2h:1m])",
    "delta(x[5m] anchored)",
    "absent(x)",
    "x or vector(0)",
    "x unless y",
    "x + on (i) group_left () y",
    "avg_over_time(x[20h])",
)


def dataset(seed: int, gaps_ms: list[int]) -> MemoryDataset:
    """Two series of noise, an hour at a time, and gaps between."""
    rng = np.random.default_rng(seed)
    times, at = [], START_MS
    for gap in (0, *gaps_ms):
        at += gap
        times.append(at + np.arange(60) * 60_000)
        at = int(times[-1][-1])
    joined = np.concatenate(times).astype(np.int64)
    found = []
    for name, i, left_out in (("x", "0", 0), ("x", "1", 70), ("y", "1", 30)):
        own = joined[left_out:] + left_out
        labels = Labels.of(__name__=name, i=i)
        found.append(Series(labels, own, rng.normal(size=own.size).cumsum()))
    return MemoryDataset(tuple(found))


def evaluated(data: MemoryDataset, text: str, axis: Axis, learnt: Folds | None = None) -> Vector:
    value = evaluate(parse(text), axis, data, Options(folds=learnt)).value
    assert isinstance(value, Vector)
    return value


def unskipped(
    data: MemoryDataset, argument: str, times_ms: np.ndarray, how: BaselineSettings
) -> dict[Labels, np.ndarray]:
    """The scores by one fold over the argument at every time of the grid."""
    step = how.resolution_ms
    grid = np.arange(START_MS // step * step, int(times_ms[-1]) + 1, step, dtype=np.int64)
    value = evaluated(data, f"({argument}) + 0", Axis(grid, 0, rule=True))
    keys = [(labels, False) for labels in value.labels]
    rows = zip(keys, value.values, value.present, strict=True)
    fold = Fold(how)
    fold.take(
        [Points(key, grid[here], values[here]) for key, values, here in rows if here.any()],
        int(times_ms[-1]),
        START_MS,
    )
    found = fold.scores(keys, times_ms)
    return dict(zip(value.labels, found, strict=True))


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    argument=st.sampled_from(ARGUMENTS),
    gaps_h=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    ttl_h=st.sampled_from([2, 24, 1_000]),
    asked=st.integers(1, 30),
    since=st.floats(0, 1),
)
def test_what_is_skipped_changes_no_bit(
    seed: int, argument: str, gaps_h: list[int], ttl_h: int, asked: int, since: float
) -> None:
    data = dataset(seed, [hours * HOUR_MS + 60_000 for hours in gaps_h])
    how = BaselineSettings(resolution_ms=RESOLUTION_MS, ttl_ms=ttl_h * HOUR_MS)
    start = START_MS + int(since * (data.end_ms - START_MS))
    times = np.unique(np.linspace(start, data.end_ms, asked).astype(np.int64))
    text = f"anomaly_score(({argument}) + 0)"
    found = evaluated(data, text, Axis(times, 0, rule=True), Folds(how))
    expected = unskipped(data, argument, times, how)
    rows = zip(found.labels, found.values, found.present, strict=True)
    shown = {labels: np.where(here, row, np.nan) for labels, row, here in rows}
    argued = evaluated(data, f"({argument}) + 0", Axis(times, 0, rule=True))
    nothing = np.full(len(times), np.nan)
    assert shown.keys() <= set(argued.labels)
    for labels, here in zip(argued.labels, argued.present, strict=True):
        wanted = np.where(here, expected.get(labels, nothing), np.nan)
        assert np.array_equal(shown.get(labels, nothing), wanted, equal_nan=True), labels


@pytest.mark.parametrize("argument", ["x", "x + 0", "rate(x[1h])", "sum(x)"])
@pytest.mark.parametrize("years", [20, 3_000])
def test_years_without_a_sample_are_gone_over_in_one_step(
    argument: str, years: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    take = Fold.take

    def counted(self: Fold, points: object, until_ms: int, *rest: int) -> None:
        taken.append(until_ms)
        take(self, points, until_ms, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Fold, "take", counted)
    data = dataset(1, [years * YEAR_MS])
    for times in ([data.start_ms, data.end_ms], [data.end_ms + years * YEAR_MS]):
        taken.clear()
        at = np.array(times, dtype=np.int64)
        evaluated(data, f"anomaly_score({argument})", Axis(at, 0, rule=True), Folds())
        assert 0 < len(taken) < 10


def test_dense_data_are_learnt_in_pieces_of_a_few_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    longest: list[int] = []
    take = Fold.take

    def measured(self: Fold, points: object, until_ms: int, *rest: int) -> None:
        found = list(points)  # type: ignore[call-overload]
        longest.extend(len(one.times_ms) for one in found)
        take(self, found, until_ms, *rest)

    monkeypatch.setattr(Fold, "take", measured)
    data = dataset(1, [60_000] * 40)
    at = np.array([data.start_ms, data.end_ms], dtype=np.int64)
    learnt = Folds(BaselineSettings(resolution_ms=30_000))
    evaluated(data, "anomaly_score(x + 0)", Axis(at, 0, rule=True), learnt)
    assert 0 < max(longest) <= PIECE_MS // 30_000


def test_what_has_values_without_samples_is_bounded_and_says_so() -> None:
    data = dataset(1, [3_000 * YEAR_MS])
    at = np.array([data.start_ms, data.end_ms], dtype=np.int64)
    with pytest.raises(EvaluationError, match=r"where there are no samples: at most") as raised:
        evaluated(data, "anomaly_score(absent(x))", Axis(at, 0, rule=True))
    span = raised.value.span
    assert span is not None
    assert (span.start, span.end) == (14, 23)
