"""A live window's labels stay one object: what follows from them is worked out once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.flush import Flush
from engine.labels import Labels
from engine.promql.engine import Options, evaluate
from engine.promql.remembered import REMEMBERED, Remembered
from engine.promql.value import Axis, Vector
from engine.series import STALE_NAN, Tabular
from engine.store import Store
from rules.promql.parser import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.series import Series
    from rules.promql.ast import Matcher

RANKS = [Labels.of(__name__="x_total", task_id=f"t{rank % 3}", rank=str(rank)) for rank in range(9)]
OTHERS = [Labels.of(__name__="y", task_id=f"t{rank % 3}", rank=str(rank)) for rank in range(6)]


class OnlySelect:
    """The same window without its matrix."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        return self.store.select(matchers, start_ms, end_ms)


@pytest.fixture
def store() -> Store:
    """Ten flushes; one series begins late, one misses a flush, one ends."""
    store = Store()
    for number in range(10):
        labels, values = [], []
        for row, own in enumerate([*RANKS, *OTHERS]):
            if (row == 2 and number < 6) or (row == 3 and number == 4) or (row == 4 and number > 7):
                continue
            labels.append(own)
            values.append(STALE_NAN if row == 4 and number == 7 else number * (row + 1.0))
        store.append(Flush(number * 10_000, tuple(labels), np.array(values), ()))
    return store


EXPRESSIONS = [
    "x_total",
    "rate(x_total[1m])",
    "x_total offset 30s",
    "sum by (task_id) (rate(x_total[1m]))",
    "rate(x_total[1m]) / on (rank) y",
    "x_total and on (task_id) y > 8",
    "x_total > on (task_id) group_left () avg by (task_id) (y)",
    "max_over_time(x_total[30s:10s])",
    "absent(z)",
    "count(x_total) or y",
]


@pytest.mark.parametrize("expr", EXPRESSIONS)
@pytest.mark.parametrize("seconds", [40, 70, 80, 90])
def test_a_matrix_gives_what_series_give(expr: str, seconds: int, store: Store) -> None:
    assert isinstance(store, Tabular)
    tree, axis = parse(expr), Axis.instant(seconds * 1000)
    one, other = (evaluate(tree, axis, data).value for data in (store, OnlySelect(store)))
    assert isinstance(one, Vector)
    assert isinstance(other, Vector)
    assert one.labels == other.labels
    assert one.values.tobytes() == other.values.tobytes()


def test_the_labels_stay_the_same_object_while_the_series_do(store: Store) -> None:
    matchers = parse("x_total").matchers  # type: ignore[union-attr]
    before = store.table(matchers, 0, 90_000).labels
    store.append(Flush(100_000, (Labels.of(__name__="z"),), np.array([1.0]), ()))
    assert store.table(matchers, 0, 100_000).labels is before
    fresh = Labels.of(__name__="x_total", rank="new")
    store.append(Flush(110_000, (fresh,), np.array([1.0]), ()))
    assert store.table(matchers, 0, 110_000).labels == tuple(sorted([*before, fresh]))


def test_a_second_tick_makes_no_labels(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    trees = [parse(expr) for expr in EXPRESSIONS[3:7]]
    now = Axis.instant(60_000)

    def tick() -> None:
        for tree in trees:
            evaluate(tree, now, store, Options())

    tick()
    made: list[Labels] = []
    original = Labels.__init__

    def counted(self: Labels, labels: object = ()) -> None:
        made.append(self)
        original(self, labels)  # type: ignore[arg-type]

    monkeypatch.setattr(Labels, "__init__", counted)
    tick()
    assert not made
    assert len(REMEMBERED)


def test_what_is_remembered_is_bounded() -> None:
    remembered = Remembered(most_rows=10, most_entries=3)
    tuples = [tuple(RANKS[:4]) for _ in range(1)] + [tuple(RANKS[1:5]), tuple(RANKS[2:6])]
    for labels in tuples:
        remembered.get((labels,), "size", lambda: 1)
    assert len(remembered) == 2
    assert remembered.get((tuples[0],), "size", lambda: 2) == 2
