"""Aggregators that hold an element against its peers, beside a loop over every element."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.dataset.dataset import MemoryDataset
from engine.labels import Labels
from engine.promql import peers
from engine.promql.engine import EvaluationError, evaluate
from engine.promql.peers import PEERS
from engine.promql.value import Axis, Vector
from engine.series import Series
from rules.promql.features import OURS, Feature, features
from rules.promql.parser import parse
from rules.promql.printer import format as format_expression
from rules.source import ProblemsError, Span

STEPS = 3
GROUP = st.lists(
    st.lists(
        st.one_of(
            st.sampled_from([math.nan, math.inf, 0.0, 1.0, 1.0, 1.1, 5.0]),
            st.integers(-(10**9), 10**9).map(lambda number: number / 1000),
        ),
        min_size=STEPS,
        max_size=STEPS,
    ),
    min_size=1,
    max_size=9,
)


def dataset(groups: list[list[list[float]]]) -> MemoryDataset:
    times = np.arange(STEPS, dtype=np.int64) * 10_000
    return MemoryDataset(
        tuple(
            Series(Labels.of(__name__="x", task_id=f"t{task}", rank=f"{rank:04}"), times, row)
            for task, group in enumerate(groups)
            for rank, row in enumerate(np.array(group, dtype=np.float64))
        )
    )


def evaluated(expr: str, data: MemoryDataset) -> dict[tuple[str, str, int], float]:
    axis = Axis.span(0, (STEPS - 1) * 10_000, 10_000)
    found = evaluate(parse(expr), axis, data).value
    assert isinstance(found, Vector)
    rows = zip(found.labels, found.values.tolist(), found.present.tolist(), strict=True)
    return {
        (labels.get("task_id"), labels.get("rank"), step): row[step]
        for labels, row, present in rows
        for step in range(STEPS)
        if present[step]
    }


def slow(op: str, value: float, others: list[float], group: list[float]) -> float:
    low, middle, high = np.quantile(others, [0.25, 0.5, 0.75]).tolist()
    away = value - middle
    match op:
        case "straggler_slowdown":
            if away == 0:
                return 1.0
            return value / middle if middle else math.copysign(math.inf, value)
        case "straggler_cost":
            return max(0.0, away) / max(group) if max(group) > 0 else 0.0
    side = high - middle if away > 0 else middle - low
    spread = max(side / 0.6744897501960817, 0.05 * abs(middle))
    if away == 0:
        return 0.0
    return away / spread if spread else math.copysign(math.inf, away)


@pytest.mark.parametrize("op", sorted(PEERS))
@settings(max_examples=80, deadline=None)
@given(groups=st.lists(GROUP, min_size=1, max_size=4), least=st.sampled_from([3, 5]))
def test_each_element_is_judged_as_a_loop_over_the_others_judges_it(
    op: str, groups: list[list[list[float]]], least: int
) -> None:
    found = evaluated(f"{op} by (task_id) ({least}, x)", dataset(groups))
    expected = {}
    for task, group in enumerate(groups):
        for step in range(STEPS):
            known = {rank: row[step] for rank, row in enumerate(group) if math.isfinite(row[step])}
            if len(known) < least:
                continue
            for rank, value in known.items():
                others = [each for other, each in known.items() if other != rank]
                expected[f"t{task}", f"{rank:04}", step] = slow(
                    op, value, others, list(known.values())
                )
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, rel=1e-6, abs=1e-9), key


@pytest.mark.parametrize("size", [3, 4, 7, 3000])
def test_one_of_any_number_is_found_and_no_other(size: int) -> None:
    values = np.random.default_rng(size).normal(1.0, 0.01, (size, STEPS))
    values[1] *= 1.4
    found = evaluated("straggler_score by (task_id) (x) > 3", dataset([values.tolist()]))
    assert {rank for _, rank, _ in found} == {"0001"}


def test_a_fifth_of_a_large_group_hides_nobody() -> None:
    values = np.random.default_rng(1).normal(1.0, 0.01, (100, STEPS))
    values[:20] *= 1.4
    found = evaluated("straggler_score by (task_id) (x) > 3", dataset([values.tolist()]))
    assert {rank for _, rank, _ in found} == {f"{rank:04}" for rank in range(20)}


def test_a_long_fast_tail_neither_hides_the_slow_one_nor_is_one() -> None:
    values = [[0.3], [0.4], [0.5], [1.0], [1.0], [1.01], [1.02], [1.3]]
    data = dataset([[row * STEPS for row in values]])
    assert {rank for _, rank, _ in evaluated("straggler_score(x) > 3", data)} == {"0007"}
    # Side by side the fast ones are a spread of their own, and none is the odd one out.
    assert evaluated("straggler_score(x) < -3", data) == {}
    values[1:3] = [[1.0], [1.0]]
    data = dataset([[row * STEPS for row in values]])
    assert {rank for _, rank, _ in evaluated("straggler_score(x) < -3", data)} == {"0000"}


@pytest.mark.parametrize("op", sorted(PEERS))
def test_how_groups_and_steps_are_cut_changes_no_bit(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(5)
    groups = [random.normal(size=(size, STEPS)).tolist() for size in (3, 3, 3, 4, 9)]
    whole = evaluated(f"{op} by (task_id) (x)", dataset(groups))
    for cells in (1, 7, 20):
        monkeypatch.setattr(peers, "CELLS", cells)
        assert evaluated(f"{op} by (task_id) (x)", dataset(groups)) == whole


def test_labels_stay_and_the_name_goes() -> None:
    data = dataset([[[1.0] * STEPS, [1.0] * STEPS, [2.0] * STEPS]])
    found = evaluate(parse("straggler_score by (task_id) (x)"), Axis.instant(0), data).value
    assert isinstance(found, Vector)
    assert [str(labels) for labels in found.labels][2] == '{rank="0002", task_id="t0"}'


@pytest.mark.parametrize("least", ["2", "NaN", "-1"])
def test_a_group_of_two_is_refused(least: str) -> None:
    with pytest.raises(EvaluationError, match="needs groups of 3 elements at least"):
        evaluated(f"straggler_score({least}, x)", dataset([[[1.0] * STEPS] * 3]))


def test_the_least_size_may_be_left_out_and_is_printed_as_written() -> None:
    for text in ("straggler_score by (a) (x)", "straggler_cost without (a) (8, x)"):
        assert format_expression(parse(text)).replace(" ", "") == text.replace(" ", "")


def test_they_are_named_as_ours() -> None:
    assert features(parse("max(straggler_score(x))")) == (
        Feature("straggler_score", OURS, Span(4, 19)),
    )


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("straggler_score()", "takes 1 or 2 arguments", "write straggler_score(x)"),
        ("straggler_cost(1, 2, x)", "takes 1 or 2 arguments", "write straggler_cost(1, 2)"),
        ("straggler_score(x, 3)", "expects a scalar as its first", "straggler_score(3, x)"),
    ],
)
def test_wrong_arguments_are_named_with_what_to_write(text: str, message: str, hint: str) -> None:
    with pytest.raises(ProblemsError) as caught:
        parse(text)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert hint in problem.hint
