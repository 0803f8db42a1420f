"""info(): the labels of a target's info metrics on its other series."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.promql.engine import EvaluationError
from engine.promql.value import Axis

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.promql.conftest import Data

SERIES = """10s
 wait{instance="n1",job="train",rank="0"} 1 2 3
 wait{instance="n2",job="train",rank="1"} 4 5 6
 named{instance="n1",job="train",zone="own"} 7 7 7
 target_info{instance="n1",job="train",zone="z1",gpu="h"} 1 1 1
 build_info{instance="n1",job="train",version="2"} 1 1 1
"""

CASES = [
    ("info(wait)", ['wait{gpu="h", instance="n1", job="train", rank="0", zone="z1"}',
                    'wait{instance="n2", job="train", rank="1"}']),
    ('info(wait, {zone=~".+"})', ['wait{instance="n1", job="train", rank="0", zone="z1"}']),
    ('info(wait, {version=~".+"})', []),
    ('info(wait{rank="0"}, {__name__="build_info"})',
     ['wait{instance="n1", job="train", rank="0", version="2"}']),
    ('info(wait{rank="0"}, {__name__=~".*_info",zone="z1",version="2"})', []),
    ('info(wait{rank="0"}, {__name__=~".*_info"})',
     ['wait{gpu="h", instance="n1", job="train", rank="0", version="2", zone="z1"}']),
    ('info(wait{rank="0"}, {__name__="no_info"})', ['wait{instance="n1", job="train", rank="0"}']),
    ('info(wait, {__name__="no_info",zone=~".+"})', []),
    ("info(named)", ['named{gpu="h", instance="n1", job="train", zone="own"}']),
    ('info(build_info, {__name__=~".*_info"})',
     ['build_info{instance="n1", job="train", version="2"}']),
]  # fmt: skip


@pytest.mark.parametrize(("expr", "expected"), CASES, ids=[row[0] for row in CASES])
def test_series_get_the_data_labels_of_their_target(
    expr: str, expected: list[str], load: Callable[[str], Data]
) -> None:
    assert sorted(load(SERIES).at(20, expr)) == sorted(expected)


def test_of_two_info_series_the_newer_counts(load: Callable[[str], Data]) -> None:
    data = load(
        '10s\n w{instance="n",job="j"} 1 2 3\n'
        ' target_info{instance="n",job="j",v="1"} 1 1 _\n'
        ' target_info{instance="n",job="j",v="2"} _ _ 1'
    )
    points = data.points("info(w)", Axis.span(0, 20_000, 10_000))
    assert points == {
        'w{instance="n", job="j", v="1"}': {0: 1, 10: 2},
        'w{instance="n", job="j", v="2"}': {20: 3},
    }


def test_two_info_series_of_one_time_are_refused(load: Callable[[str], Data]) -> None:
    data = load(
        '10s\n w{instance="n",job="j"} 1\n target_info{instance="n",job="j",v="1"} 1\n'
        ' target_info{instance="n",job="j",v="2"} 1'
    )
    with pytest.raises(EvaluationError, match="found duplicate series for info metric"):
        data.at(0, "info(w)")


def test_info_metrics_that_disagree_are_refused(load: Callable[[str], Data]) -> None:
    data = load(
        '10s\n w{instance="n",job="j"} 1\n a_info{instance="n",job="j",v="1"} 1\n'
        ' b_info{instance="n",job="j",v="2"} 1'
    )
    with pytest.raises(EvaluationError, match="conflicting label: v"):
        data.at(0, 'info(w, {__name__=~"._info"})')
