"""anomaly_score: the same bits for any step, any cut of the axis and whoever asks how often."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.baselines.anomaly.model import ANOMALY_THRESHOLD, AnomalyModel, fold
from engine.baselines.anomaly.settings import Learning
from engine.baselines.folds import Folds
from engine.baselines.settings import BaselineSettings
from engine.dataset.dataset import MemoryDataset
from engine.labels import Labels
from engine.promql.engine import Options, evaluate
from engine.promql.value import Axis, Vector
from engine.series import STALE_NAN, Series
from rules.promql.parser import parse

STEP_MS = 10_000
STEPS = 360
START_MS = 1_700_000_000_000
TIMES_MS = START_MS + np.arange(STEPS, dtype=np.int64) * STEP_MS

EXPRESSIONS = (
    "anomaly_score(x)",
    "anomaly_score(x offset 1m)",
    "anomaly_score(rate(x[1m]))",
    "anomaly_score(sum by (i) (x))",
    "anomaly_score(x > 0)",
    "anomaly_score(max_over_time(rate(x[1m])[2m:30s]))",
    'sum(anomaly_score(x)) + ignoring () sum(anomaly_score({i=~".+",__name__="x"}))',
    "topk(1, anomaly_score(x) > 0.2)",
)

Rows = dict[str, np.ndarray]


def dataset(seed: int = 1, series: int = 4) -> MemoryDataset:
    """Noise with a jump, some samples missing, some after a staleness marker."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(series):
        here = rng.random(STEPS) < (0.9 if number else 1.0)
        values = rng.normal(size=STEPS) + np.where(np.arange(STEPS) > 200, 5 * number, 0)
        values[rng.integers(0, STEPS, 3)] = STALE_NAN
        found.append(Series(Labels.of(__name__="x", i=str(number)), TIMES_MS[here], values[here]))
    return MemoryDataset(tuple(found))


def scores(
    data: MemoryDataset, text: str, times_ms: np.ndarray, folds: Folds | None = None
) -> Rows:
    """The result by labels, NaN where it is absent."""
    value = evaluate(parse(text), Axis(times_ms, 0, rule=True), data, Options(folds=folds)).value
    assert isinstance(value, Vector)
    rows = zip(value.labels, value.values, value.present, strict=True)
    return {str(labels): np.where(here, row, np.nan) for labels, row, here in rows}


def in_pieces(data: MemoryDataset, text: str, pieces: list[np.ndarray], folds: Folds) -> Rows:
    """One evaluation after another, the results side by side."""
    found = [scores(data, text, piece, folds) for piece in pieces]
    names = sorted({name for rows in found for name in rows})
    return {
        name: np.concatenate(
            [
                rows.get(name, np.full(len(piece), np.nan))
                for rows, piece in zip(found, pieces, strict=True)
            ]
        )
        for name in names
    }


def assert_same_bits(found: Rows, expected: Rows) -> None:
    assert found.keys() == expected.keys()
    for name, row in expected.items():
        assert np.array_equal(np.isnan(found[name]), np.isnan(row)), name
        assert found[name][~np.isnan(row)].tobytes() == row[~np.isnan(row)].tobytes(), name


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_one_chunk_and_seven_and_many_give_the_same_bits(text: str) -> None:
    data = dataset()
    whole = scores(data, text, TIMES_MS)
    assert any((~np.isnan(row)).any() for row in whole.values())
    for count in (7, STEPS // 4):
        pieces = np.array_split(TIMES_MS, count)
        assert_same_bits(in_pieces(data, text, pieces, Folds()), whole)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_steps_of_10_seconds_and_of_60_give_the_same_bits_where_both_look(text: str) -> None:
    data = dataset()
    fine = scores(data, text, TIMES_MS)
    coarse = scores(data, text, TIMES_MS[::6])
    shown = {name: row[::6] for name, row in fine.items() if not np.isnan(row[::6]).all()}
    assert_same_bits(coarse, shown)


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    text=st.sampled_from(EXPRESSIONS),
    cuts=st.sets(st.integers(1, STEPS - 1), max_size=6),
    step=st.integers(1, 9),
    start=st.integers(0, STEPS // 2),
)
def test_no_cut_step_or_start_of_an_axis_changes_a_bit(
    seed: int, text: str, cuts: set[int], step: int, start: int
) -> None:
    data = dataset(seed, 3)
    fine = scores(data, text, TIMES_MS)
    # Between the samples' times too.
    times = TIMES_MS[start::step]
    pieces = [
        TIMES_MS[a:b] for a, b in pairwise([start, *sorted(c for c in cuts if c > start), STEPS])
    ]
    expected = {name: row[start::step] for name, row in fine.items()}
    expected = {name: row for name, row in expected.items() if not np.isnan(row).all()}
    assert_same_bits(scores(data, text, times), expected)
    joined = in_pieces(data, text, pieces, Folds())
    whole = {name: row[start:] for name, row in fine.items() if not np.isnan(row[start:]).all()}
    assert_same_bits(joined, whole)


def test_a_plain_selector_is_followed_sample_by_sample_whatever_the_step() -> None:
    data = dataset()
    for series in data.series:
        stale = np.array([STALE_NAN]).view(np.uint64)
        alive = series.values.view(np.uint64) != stale
        expected = fold(AnomalyModel(), series.timestamps_ms[alive], series.values[alive])
        found = scores(data, f'anomaly_score(x{{i="{series.labels.get("i")}"}})', TIMES_MS[-1:])
        (row,) = found.values()
        assert row[0] == expected[-1]


def test_any_other_argument_is_followed_on_the_grid_of_the_resolution() -> None:
    data = dataset()
    folds = Folds(BaselineSettings(resolution_ms=20_000))
    # Multiples of the resolution since 1970, wherever the axis has its steps.
    grid = np.arange(-(-START_MS // 20_000) * 20_000, TIMES_MS[-1] + 1, 20_000, dtype=np.int64)
    value = evaluate(parse("sum(x)"), Axis(grid, 0, rule=True), data, Options()).value
    assert isinstance(value, Vector)
    expected = fold(AnomalyModel(), grid[value.present[0]], value.values[0][value.present[0]])
    found = scores(data, "anomaly_score(sum(x))", TIMES_MS, folds)["{}"]
    places = np.searchsorted(grid, TIMES_MS, side="right") - 1
    wanted = np.where(places < 0, np.nan, expected[np.maximum(places, 0)])
    assert np.array_equal(found, wanted, equal_nan=True)


def test_it_is_absent_where_its_argument_is_and_while_it_learns() -> None:
    data = dataset()
    argument, found = scores(data, "x", TIMES_MS), scores(data, "anomaly_score(x)", TIMES_MS)
    for number in range(4):
        row, score = argument[f'x{{i="{number}"}}'], found[f'{{i="{number}"}}']
        assert not (~np.isnan(score) & np.isnan(row)).any()
        warm = ~np.isnan(score)
        first = int(warm.argmax())
        assert first > 0
        # From then on a score is missing just where the argument is.
        assert np.array_equal(warm[first:], ~np.isnan(row)[first:])


def test_what_pauses_learning_is_the_elements_own_score() -> None:
    data = dataset()
    always = Folds(BaselineSettings(learning=Learning(pause=False)))
    paused = scores(data, "anomaly_score(x)", TIMES_MS)
    learning = scores(data, "anomaly_score(x)", TIMES_MS, always)
    for name, row in paused.items():
        # Up to an element's own onset nothing is different.
        onsets = np.flatnonzero(row >= ANOMALY_THRESHOLD)
        until = onsets[0] + 1 if onsets.size else STEPS
        assert np.array_equal(row[:until], learning[name][:until], equal_nan=True)
    assert not np.array_equal(paused['{i="3"}'], learning['{i="3"}'], equal_nan=True)


def test_a_rule_can_ask_for_what_is_not_ready() -> None:
    data = dataset()
    cold = scores(data, "x unless anomaly_score(x)", TIMES_MS)
    assert not np.isnan(cold['x{i="0"}'][0])
    assert np.isnan(cold['x{i="0"}'][-1])


def test_equal_expressions_share_one_fold_however_they_are_written() -> None:
    data, folds = dataset(), Folds()
    for text in (
        'anomaly_score(x{i="1",j=""})',
        'anomaly_score( ({ j="", i="1", __name__="x"}) )',
        "anomaly_score(sum by (i, j) (x))",
        "anomaly_score(sum by (j,i)(x))",
    ):
        scores(data, text, TIMES_MS, folds)
    assert sorted(folds.by_text) == ["sum by (i, j) (x)", 'x{i="1",j=""}']


def test_evaluating_the_past_moves_nothing_and_gives_the_same_bits() -> None:
    data, folds = dataset(), Folds()
    whole = scores(data, "anomaly_score(x)", TIMES_MS)
    scores(data, "anomaly_score(x)", TIMES_MS[-1:], folds)
    before = folds.by_text["x"].folded_ms
    # Farther back than scores are kept.
    past = scores(data, "anomaly_score(x)", TIMES_MS[180:230], folds)
    assert_same_bits(past, {name: row[180:230] for name, row in whole.items()})
    assert folds.by_text["x"].folded_ms == before


def test_who_only_looks_moves_nothing_and_sees_what_is_to_come() -> None:
    data, folds = dataset(), Folds()
    whole = scores(data, "anomaly_score(x)", TIMES_MS)
    scores(data, "anomaly_score(x)", TIMES_MS[:200], folds)
    for piece in (slice(150, 180), slice(190, 280), slice(0, 360)):
        found = scores(data, "anomaly_score(x)", TIMES_MS[piece], folds.reading())
        assert_same_bits(found, {name: row[piece] for name, row in whole.items()})
    assert folds.by_text["x"].folded_ms == TIMES_MS[199]


def test_a_negative_offset_beside_it_looks_no_farther_than_each_step() -> None:
    data = dataset()
    plain = scores(data, "anomaly_score(x)", TIMES_MS)
    text = "anomaly_score(x) and ignoring () (x offset -1m or x)"
    beside = scores(data, text, TIMES_MS)
    assert_same_bits(beside, plain)


def test_the_name_of_the_metric_goes() -> None:
    assert all(not name.startswith("x") for name in scores(dataset(), "anomaly_score(x)", TIMES_MS))
