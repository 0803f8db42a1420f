"""Ranking and quantiles of many groups at one step are those of each group alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.flush import Flush
from engine.labels import Labels
from engine.promql.engine import Options, evaluate
from engine.promql.value import Axis, Vector
from engine.store import Store
from rules.promql.parser import parse

if TYPE_CHECKING:
    from collections.abc import Callable

TASKS = 12


@pytest.fixture(params=["distinct", "equal", "strange"])
def store(request: pytest.FixtureRequest) -> Store:
    """Sixty series in twelve tasks of different sizes, some of them equal or no number."""
    random = np.random.default_rng(11)
    labels = [
        Labels.of(__name__="x", task_id=f"t{int(task)}", rank=f"{rank:02}")
        for rank, task in enumerate(random.integers(0, TASKS, 60))
    ]
    values = random.normal(0, 1, 60)
    if request.param != "distinct":
        values = np.round(values)
    if request.param == "strange":
        values[::7], values[::11] = np.nan, np.inf
    store = Store()
    store.append(Flush(10_000, tuple(labels), values, ()))
    return store


def shown(store: Store, expr: str) -> list[tuple[Labels, str]]:
    value = evaluate(parse(expr), Axis.instant(10_000), store, Options()).value
    assert isinstance(value, Vector)
    order = range(len(value.labels)) if value.order is None else value.order
    return [(value.labels[row], repr(float(value.values[row, 0]))) for row in order]


EXPRESSIONS: list[Callable[[str], str]] = [
    lambda vector: f"topk by (task_id) (1, {vector})",
    lambda vector: f"topk by (task_id) (3, {vector})",
    lambda vector: f"bottomk by (task_id) (2, {vector})",
    lambda vector: f"topk by (task_id) (0, {vector})",
    lambda vector: f"limitk by (task_id) (2, {vector})",
    lambda vector: f"quantile by (task_id) (0.4, {vector})",
    lambda vector: f"stddev by (task_id) ({vector})",
]


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)))
def test_many_groups_are_each_what_they_are_alone(number: int, store: Store) -> None:
    expression = EXPRESSIONS[number]
    together = shown(store, expression("x"))
    alone = [shown(store, expression(f'x{{task_id="t{task}"}}')) for task in range(TASKS)]
    assert sorted(map(str, together)) == sorted(str(row) for rows in alone for row in rows)
    for rows in alone:
        assert [row for row in together if row in rows] == rows
