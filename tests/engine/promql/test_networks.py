"""Comparator networks find the ranks that sorting every window finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.promql.networks import MOST_AT_ONCE, network, run


@st.composite
def wanted(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """Samples of a window, samples from one window to the next, lowest and highest rank."""
    width = draw(st.integers(1, 40))
    lowest = draw(st.integers(0, width - 1))
    highest = draw(st.integers(lowest, min(width - 1, lowest + 5)))
    return width, draw(st.integers(1, 12)), lowest, highest


@settings(max_examples=60, deadline=None)
@given(wanted=wanted(), seed=st.integers(0, 2**32 - 1))
def test_a_network_finds_what_sorting_finds(wanted: tuple[int, int, int, int], seed: int) -> None:
    width, hop, lowest, highest = wanted
    program = network(*wanted)
    random = np.random.default_rng(seed)
    groups = 5
    samples = random.integers(0, 9, (groups + program.beyond) * program.inputs).astype(float)
    found = run(program, samples.reshape(-1, program.inputs).T)
    for window in range(groups * program.group):
        ordered = np.sort(samples[window * hop : window * hop + width])
        got = found[:, window % program.group, window // program.group]
        assert got.tolist() == ordered[lowest : highest + 1].tolist()


@pytest.mark.parametrize("groups", [MOST_AT_ONCE - 1, MOST_AT_ONCE + 1, 2 * MOST_AT_ONCE + 7])
def test_many_groups_are_worked_on_in_parts(groups: int) -> None:
    program = network(7, 1, 3, 3)
    samples = np.random.default_rng(0).normal(size=(groups + program.beyond) * program.inputs)
    found = run(program, samples.reshape(-1, program.inputs).T)
    medians = np.median(np.lib.stride_tricks.sliding_window_view(samples, 7), axis=1)
    count = groups * program.group
    assert found[0, :, :groups].T.ravel().tolist() == medians[:count].tolist()


def test_a_high_rank_costs_less_than_a_middle_one() -> None:
    high, middle = network(30, 1, 28, 29), network(30, 1, 14, 15)
    per_window = [len(one.instructions) / one.group for one in (high, middle)]
    assert per_window[0] < 15
    assert per_window[1] < 45
