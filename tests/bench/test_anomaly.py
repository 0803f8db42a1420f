"""The anomaly benchmark: its peers where the answer is plain, and ours on the labelled series."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from bench.anomaly import corpus, rivals, variants
from engine.baselines.anomaly import model
from engine.baselines.anomaly.model import ANOMALY_THRESHOLD, AnomalyModel, fold

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.series import Float64Array


def spike() -> corpus.Labelled:
    values = np.random.default_rng(1).normal(100.0, 5.0, 600)
    values[500] = 400.0
    return corpus.Labelled("made-up/spike.csv", np.arange(600, dtype=np.int64) * 10_000, values)


@pytest.mark.parametrize("detector", [rivals.windowed_gaussian, rivals.skyline])
def test_a_peer_scores_a_spike_highest(
    detector: Callable[[corpus.Labelled], Float64Array],
) -> None:
    scores = detector(spike())
    assert scores[100:].max() == scores[500]
    assert np.count_nonzero(scores[100:] == scores[500]) < 10


def test_a_variant_puts_the_shipped_numbers_back() -> None:
    series = spike()
    found = corpus.Corpus(corpus.ROOT, corpus.ROOT, (series,))
    shipped = fold(AnomalyModel(), series.times_ms, series.values)
    margins = model.MARGINS
    loose = variants.scores(found, VALUE_MARGIN=1.01)[series.name]
    assert np.count_nonzero(loose >= ANOMALY_THRESHOLD) > 1
    assert margins == model.MARGINS
    assert variants.scores(found)[series.name].tobytes() == shipped.tobytes()


def test_the_shipped_threshold_reaches_seventy_on_the_labelled_series() -> None:
    found = corpus.load()
    if found is None:
        pytest.skip(f"no labelled series at {corpus.shared()} (set STALLWATCH_SHARED)")
    told = found.score(variants.scores(found), threshold=ANOMALY_THRESHOLD)
    assert told["standard"]["score"] >= 70.0
    assert told["standard"]["categories"]["artificialNoAnomaly"]["fp_points"] == 0
