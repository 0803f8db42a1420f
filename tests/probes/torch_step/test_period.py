"""The period of a sequence of collectives, against an obvious reference."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.torch_step.period import MIN_REPEATS, Period, Sequence, find_period, pauses, scores

MILLISECOND = 1_000_000
# What real jobs issue: gathers before and after each block, a reduction behind it.
FSDP = "ggggrgrgr"
ACCUMULATED = "gg" * 8 + "rr"


def find(sequence: str, *, step: int = MILLISECOND) -> Period | None:
    symbols = np.array([ord(symbol) for symbol in sequence], dtype=np.int64)
    return find_period(symbols, np.arange(len(symbols), dtype=np.int64) * step)


def primitive(motif: str) -> str:
    """The shortest string that `motif` is a repetition of."""
    return motif[: (motif + motif).find(motif, 1)]


def slow_score(sequence: list[int], lag: int) -> float:
    """The formula of the module, word by word."""
    total = weight_sum = 0.0
    for symbol in set(sequence):
        count = sequence.count(symbol)
        share = count / len(sequence)
        if count < MIN_REPEATS - 1 or share == 1:
            continue
        places = [i for i in range(len(sequence) - lag) if sequence[i] == symbol]
        met = sum(sequence[i + lag] == symbol for i in places) / max(1, len(places))
        total += math.sqrt(share) * (met - share) / (1 - share)
        weight_sum += math.sqrt(share)
    return total / weight_sum


motifs = st.text("abcd", min_size=2, max_size=12).map(primitive).filter(lambda m: len(set(m)) > 1)


@given(motifs, st.integers(12, 40), st.integers(0, 11))
@settings(max_examples=60, deadline=None)
def test_a_sequence_that_repeats_exactly_has_the_period_that_an_exact_search_finds(
    motif: str, repeats: int, start: int
) -> None:
    sequence = (motif * (repeats + 1))[start % len(motif) :]
    exact = next(
        lag
        for lag in range(1, len(sequence))
        if all(a == b for a, b in zip(sequence, sequence[lag:], strict=False))
    )
    found = find(sequence)
    assert exact == len(motif)
    assert found is not None
    assert found.collectives == exact


@given(st.lists(st.integers(0, 3), min_size=24, max_size=60))
@settings(max_examples=40, deadline=None)
def test_scores_are_those_of_the_formula_worked_out_slowly(sequence: list[int]) -> None:
    _, codes = np.unique(sequence, return_inverse=True)
    fast = scores(codes.astype(np.int64), len(sequence) // MIN_REPEATS)
    if len(fast):
        slow = [slow_score(sequence, lag) for lag in range(1, len(fast) + 1)]
        assert fast == pytest.approx(slow)


@pytest.mark.parametrize(
    ("motif", "sure"),
    [(FSDP, 0.5), (ACCUMULATED, 0.4), ("ab", 0.9), ("abbb", 0.5), ("abcdefgh", 0.9)],
)
def test_what_training_jobs_issue_has_the_period_of_their_steps(motif: str, sure: float) -> None:
    found = find(motif * 40)
    assert found is not None
    assert found.collectives == len(motif)
    assert found.seconds == pytest.approx(len(motif) / 1000)
    assert sure <= found.confidence <= 1


@pytest.mark.parametrize("seed", range(20))
def test_a_hundredth_of_the_collectives_missing_does_not_move_the_period(seed: int) -> None:
    draw = random.Random(seed)
    for motif in (FSDP, ACCUMULATED, "abcdefgh"):
        kept = "".join(symbol for symbol in motif * 60 if draw.random() > 0.01)
        found = find(kept)
        assert found is not None
        assert found.collectives == len(motif)
        whole = find(motif * 60)
        assert whole is not None
        assert found.confidence < whole.confidence


@pytest.mark.parametrize("seed", range(20))
def test_a_sequence_without_order_has_no_period(seed: int) -> None:
    draw = random.Random(seed)
    assert find("".join(draw.choice("abc") for _ in range(400))) is None


def test_a_second_rhythm_lowers_the_confidence() -> None:
    plain, logged = find("aab" * 100), find(("aab" * 10 + "l") * 20)
    assert plain is not None
    assert logged is not None
    assert logged.collectives == 31
    assert logged.confidence < 0.7 < plain.confidence


def test_equal_collectives_are_told_apart_by_the_pauses_between_them() -> None:
    # Six parameters reduced one by one, 1 ms apart, then 50 ms of computing.
    steps = np.arange(40).repeat(6) * 56 + np.tile(np.arange(6), 40)
    symbols = np.ones(len(steps), dtype=np.int64)
    found = find_period(symbols, (steps * MILLISECOND).astype(np.int64))
    assert found is not None
    assert found.collectives == 6
    assert found.seconds == pytest.approx(0.056)


def test_equal_collectives_at_equal_times_have_no_period_that_could_be_a_step() -> None:
    assert find("a" * 200) is None


def test_pauses_of_one_kind_are_not_split() -> None:
    draw = np.random.default_rng(1)
    times = np.cumsum(draw.uniform(1.0, 1.5, 100) * MILLISECOND).astype(np.int64)
    assert not pauses(times).any()


def test_a_sequence_keeps_its_newest_collectives_only() -> None:
    sequence = Sequence(capacity=60)
    for index, symbol in enumerate("xyzxz" * 20 + "ab" * 30):
        sequence.add(ord(symbol), index * MILLISECOND)
    assert (len(sequence), sequence.total) == (60, 160)
    found = sequence.period()
    assert found is not None
    assert found.collectives == 2


def test_a_few_collectives_tell_nothing() -> None:
    sequence = Sequence(capacity=60)
    for index in range(23):
        sequence.add(index % 2, index)
    assert sequence.period() is None
