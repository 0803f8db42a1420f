"""The parser's table of functions and the evaluator's agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.promql.folding import FOLDS
from engine.promql.functions.table import IMPLEMENTATIONS
from engine.promql.peers import PEERS
from rules.promql.functions import AGGREGATORS, FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.promql.conftest import Data

WITH_PARAMETER = {"topk", "bottomk", "quantile", "count_values", "limitk", "limit_ratio"}


def test_every_function_that_the_parser_lets_through_is_implemented() -> None:
    assert set(FUNCTIONS) == set(IMPLEMENTATIONS)


def test_every_aggregator_that_the_parser_lets_through_is_implemented() -> None:
    assert set(AGGREGATORS) == set(FOLDS) | WITH_PARAMETER | set(PEERS)


def test_functions_of_native_histograms_give_nothing_for_floats(
    load: Callable[[str], Data],
) -> None:
    data = load("10s\n w 1 2 3")
    names = [name for name, row in FUNCTIONS.items() if row.native_histograms]
    assert names
    assert all(data.at(20, f"{name}(w)") == {} for name in names)
