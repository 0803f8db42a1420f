"""The distance to the nearest shape beside every pair of windows."""

from __future__ import annotations

import numpy as np
import pytest

from engine.baselines.statistics.discord import BLOCK, KEPT, KNOWN, SHAPE, Discord, nearest


def slow(values: np.ndarray) -> float:
    """The distance from the last shape to each earlier one that is kept and does not overlap."""
    whole = len(values) // BLOCK * BLOCK
    blocks = values[:whole].reshape(-1, BLOCK).mean(axis=1)[-KEPT:]
    last = blocks[-SHAPE:]
    starts = range(len(blocks) - 2 * SHAPE + 1)
    return min(float(np.linalg.norm(blocks[i : i + SHAPE] - last)) for i in starts)


@pytest.mark.parametrize("blocks", [KNOWN, 60, KEPT, KEPT + 100])
def test_it_is_the_smallest_distance_to_an_earlier_shape(blocks: int) -> None:
    values = np.random.default_rng(blocks).normal(size=blocks * BLOCK)
    discord = Discord()
    told = [discord.update(float(value)) for value in values][-1]
    assert told == pytest.approx(slow(values), rel=1e-9)


def test_it_tells_nothing_before_there_is_a_choice_and_between_blocks() -> None:
    values = np.random.default_rng(1).normal(size=KNOWN * BLOCK)
    discord = Discord()
    told = [discord.update(float(value)) for value in values]
    assert not any(told[:-1])
    assert told[-1] > 0.0


def test_a_rhythm_has_no_distance_and_a_missed_beat_has() -> None:
    beat = np.tile(np.repeat([0.0, 5.0], 20), 40)
    missed = np.concatenate([beat, np.zeros(BLOCK * SHAPE)])
    discord = Discord()
    told = np.array([discord.update(float(value)) for value in missed])
    assert told[400 : len(beat)].max() == 0.0
    assert told[len(beat) :].max() > 5.0


def test_one_series_has_the_bits_that_it_has_among_many() -> None:
    blocks = np.random.default_rng(3).normal(size=(KEPT, 50))
    alone = [nearest(np.ascontiguousarray(blocks[:, i])) for i in range(50)]
    assert np.array(alone).tobytes() == nearest(blocks).tobytes()
