"""The model with another number in it: how much does the result depend on each?"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from engine.baselines.anomaly import model
from engine.baselines.anomaly.model import ANOMALY_THRESHOLD, AnomalyModel, fold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.anomaly.corpus import Corpus
    from engine.series import Float64Array

# What is tried for each number, the shipped one among them.
TRIED: dict[str, tuple[float, ...]] = {
    "VALUE_MARGIN": (1.04, 1.07, 1.1, 1.13, 1.16),
    "PATTERN_MARGIN": (1.15, 1.3, 1.5),
    "SHORT_POINTS": (6, 8, 12, 16),
    "LONG_POINTS": (300, 1000, 3000),
    "HOLD_POINTS": (700, 1000, 1400),
    "FADE": (4e-4, 7e-4, 1e-3),
    "KNOWN_DAYS": (3, 4, 5),
    "COOL_DOWN_POINTS": (20, 40, 60),
    "LEAST_OF_RANGE": (0.03, 0.05, 0.08),
}
# What is chosen without a category, to be judged on it.
CHOSEN = ("VALUE_MARGIN", "HOLD_POINTS", "FADE")


def scores(corpus: Corpus, **numbers: float) -> dict[str, Float64Array]:
    """The model's scores of every series, with these numbers instead of the shipped ones."""
    value = numbers.pop("VALUE_MARGIN", model.MARGINS[0])
    pattern = numbers.pop("PATTERN_MARGIN", model.MARGINS[-1])
    margins = (*(value,) * 5, *(pattern,) * 2)
    patched: dict[str, Any] = {**numbers, "MARGINS": margins}
    with mock.patch.multiple(model, **patched):
        return {one.name: fold(AnomalyModel(), one.times_ms, one.values) for one in corpus.series}


def sensitivity(corpus: Corpus) -> Iterator[tuple[str, float, float]]:
    """(number, value tried, Standard score) with one number changed at a time."""
    for name, values in TRIED.items():
        for value in values:
            told = corpus.score(scores(corpus, **{name: value}), threshold=ANOMALY_THRESHOLD)
            yield name, value, told["standard"]["score"]


def held_out(corpus: Corpus) -> tuple[float, dict[str, dict[str, float]]]:
    """(Standard score, numbers chosen by category): each judged by what suits the others best.

    Every combination of `CHOSEN` is tried on the other categories; the first of the best is taken.
    """
    combinations = [
        dict(zip(CHOSEN, values, strict=True))
        for values in itertools.product(*(TRIED[name] for name in CHOSEN))
    ]
    raw = []
    for numbers in combinations:
        told = corpus.score(scores(corpus, **numbers), threshold=ANOMALY_THRESHOLD)
        parts = told["standard"]["categories"]
        raw.append({name: parts[name]["raw"] for name in corpus.categories})
        windows = {name: parts[name]["windows"] for name in corpus.categories}
    total, chosen = 0.0, {}
    for category in corpus.categories:
        others = [sum(one.values()) - one[category] for one in raw]
        best = int(np.argmax(others))
        chosen[category] = combinations[best]
        total += raw[best][category]
    count = sum(windows.values())
    return 100.0 * (total + count) / (2.0 * count), chosen
