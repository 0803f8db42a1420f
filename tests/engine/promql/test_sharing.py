"""What several expressions have in common is computed once, and comes out as it would alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.labels import Labels
from engine.promql.engine import EvaluationError, Options, evaluate
from engine.promql.sharing import Sharing
from engine.promql.value import Axis, Vector
from engine.series import Series
from rules.promql.parser import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.promql.value import Result
    from rules.promql.ast import Matcher

TIMES = np.arange(0, 600_001, 10_000, dtype=np.int64)
AXIS = Axis.span(5_000, 600_000, 15_000, rule=True)


@dataclass
class Data:
    """Counters `x_total` and gauges `y` of six tasks; `asked` counts."""

    asked: int = 0
    factor: float = 1.0
    names: tuple[str, ...] = field(default=("x_total", "y"))

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        self.asked += 1
        name = next(one.value for one in matchers if one.label == "__name__")
        mask = (start_ms <= TIMES) & (end_ms >= TIMES)
        return [
            Series(
                Labels.of(__name__=name, task_id=f"t{number}", rank=f"{number % 2}"),
                TIMES[mask],
                np.arange(61.0)[mask] * ((number + 1) * self.factor),
            )
            for number in range(6)
            if name in self.names
        ]


def told(result: Result) -> list[tuple[str, bytes, bytes]]:
    assert isinstance(result.value, Vector)
    value = result.value
    return [
        (str(labels), row.tobytes(), here.tobytes())
        for labels, row, here in zip(
            value.labels, np.where(value.present, value.values, 0.0), value.present, strict=True
        )
    ]


def run(texts: Sequence[str], data: Data, options: Options) -> list[list[object]]:
    trees = [parse(text) for text in texts]
    return [evaluated(tree, data, options) for tree in trees]


def evaluated(tree: object, data: Data, options: Options) -> list[object]:
    try:
        result = evaluate(tree, AXIS, data, options)  # type: ignore[arg-type]
    except EvaluationError as error:
        return [str(error)]
    return [told(result), set(result.warnings), set(result.infos)]


def test_a_rate_with_three_thresholds_is_computed_once_and_read_once() -> None:
    texts = ["rate(x_total[1m]) > 0.1", "rate(x_total[1m]) > 0.3", "sum(rate( x_total[1m] ))"]
    trees = tuple(parse(text) for text in texts)
    data, sharing = Data(), Sharing(trees)
    for tree in trees:
        evaluate(tree, AXIS, data, Options(shared=sharing))
    assert data.asked == 1
    # The series and the rate.
    assert sharing.computed == 2


def test_the_two_sides_of_a_ratio_share_what_they_have_in_common() -> None:
    tree = parse("sum(rate(x_total[1m])) / (sum(rate(x_total[1m])) + sum(rate(y[1m])))")
    data, sharing = Data(), Sharing((tree,))
    evaluate(tree, AXIS, data, Options(shared=sharing))
    assert data.asked == 2
    assert sharing.reused == 1


def test_what_was_written_is_read_again() -> None:
    trees = (parse("max(x_total) > 1"), parse("max(x_total) > 2"))
    data, sharing = Data(), Sharing(trees)
    options = Options(shared=sharing)
    evaluate(trees[0], AXIS, data, options)
    data.factor = 10.0
    sharing.forget(lambda _: False)
    assert told(evaluate(trees[1], AXIS, data, options)) == told(
        evaluate(trees[1], AXIS, Data(), Options())
    )
    sharing.forget(lambda _: True)
    assert told(evaluate(trees[1], AXIS, data, options)) == told(
        evaluate(trees[1], AXIS, data, Options())
    )


def test_what_does_not_fit_is_not_held() -> None:
    trees = (parse("rate(x_total[1m]) > 0.1"), parse("rate(x_total[1m]) > 0.2"))
    sharing = Sharing(trees, most_bytes=500)
    for tree in trees:
        evaluate(tree, AXIS, Data(), Options(shared=sharing))
    assert sharing.reused == 0


@pytest.mark.parametrize("text", ["rate(y[1m])", " rate(y[1m])"])
def test_an_annotation_names_the_place_in_its_own_expression(text: str) -> None:
    trees = (parse("rate(y[1m]) > 0.1"), parse(f"{text} > 0.2"))
    sharing = Sharing(trees)
    alone = [evaluated(tree, Data(), Options()) for tree in trees]
    assert [evaluated(tree, Data(), Options(shared=sharing)) for tree in trees] == alone
    assert alone[0][2]


DATA = Data()
PARTS = st.sampled_from(
    [
        "x_total",
        "y",
        "rate(x_total[1m])",
        "rate(y[1m])",
        "sum by (task_id) (rate(x_total[1m]))",
        "max_over_time(rate(x_total[1m])[2m:15s])",
        "y offset -1m",
        "x_total @ end()",
        "absent(z)",
        "(scalar(count(y)) + x_total)",
    ]
)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} > 0.2)".format, inner),
        st.builds("sum by (rank) ({})".format, inner),
        st.builds("({} and on (task_id) {})".format, inner, inner),
        st.builds("({} + on (task_id, rank) {})".format, inner, inner),
        st.builds("abs({})".format, inner),
    )


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(st.recursive(PARTS, _grown, max_leaves=4), min_size=1, max_size=4),
    most_bytes=st.sampled_from([1_000, 10**9]),
    delayed=st.booleans(),
)
def test_sharing_changes_nothing(texts: list[str], most_bytes: int, *, delayed: bool) -> None:
    trees = [parse(text) for text in texts]
    sharing = Sharing(tuple(trees), most_bytes=most_bytes)
    alone = Options(delayed_name_removal=delayed)
    shared = Options(delayed_name_removal=delayed, shared=sharing)
    for tree in [*trees, *trees]:
        assert evaluated(tree, Data(), alone) == evaluated(tree, DATA, shared)
