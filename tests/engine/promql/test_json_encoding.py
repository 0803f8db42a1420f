"""Results in the JSON of Prometheus' query API."""

from __future__ import annotations

import numpy as np
import pytest

from engine.labels import Labels
from engine.promql.json_encoding import encode
from engine.promql.numbers import format_exponent, format_value
from engine.promql.value import Axis, Matrix, Result, Scalar, String, Vector
from engine.series import STALE_NAN, Series

# As Go's strconv prints them.
VALUES = [
    (0.0, "0", "0e+00"),
    (-0.0, "-0", "-0e+00"),
    (1.0, "1", "1e+00"),
    (0.5, "0.5", "5e-01"),
    (100.0, "100", "1e+02"),
    (-1234.5, "-1234.5", "-1.2345e+03"),
    (1e-5, "0.00001", "1e-05"),
    (1e-7, "1e-07", "1e-07"),
    (1e16, "10000000000000000", "1e+16"),
    (1.5e20, "150000000000000000000", "1.5e+20"),
    (1e21, "1e+21", "1e+21"),
    (0.1 + 0.2, "0.30000000000000004", "3.0000000000000004e-01"),
    (float("nan"), "NaN", "NaN"),
    (float("inf"), "+Inf", "+Inf"),
    (float("-inf"), "-Inf", "-Inf"),
]


@pytest.mark.parametrize(("value", "plain", "exponent"), VALUES)
def test_values_are_written_as_go_writes_them(value: float, plain: str, exponent: str) -> None:
    assert format_value(value) == plain
    assert format_exponent(value) == exponent


def test_an_instant_vector_keeps_nan_and_leaves_out_what_is_absent() -> None:
    vector = Vector(
        (Labels.of(__name__="up", a="1"), Labels.of(a="2"), Labels.of(a="3")),
        np.array([[1.0], [float("nan")], [7.0]]),
        np.array([[True], [True], [False]]),
        order=(1, 0, 2),
    )
    assert encode(Result(vector), Axis.instant(1500)) == {
        "resultType": "vector",
        "result": [
            {"metric": {"a": "2"}, "value": [1.5, "NaN"]},
            {"metric": {"__name__": "up", "a": "1"}, "value": [1.5, "1"]},
        ],
    }


def test_a_range_query_is_a_matrix_sorted_by_labels() -> None:
    vector = Vector(
        (Labels.of(a="2"), Labels.of(a="1")),
        np.array([[1.0, 2.0], [3.0, 4.0]]),
        np.array([[True, False], [True, True]]),
    )
    assert encode(Result(vector), Axis.span(1000, 2000, 1000))["result"] == [
        {"metric": {"a": "1"}, "values": [[1, "3"], [2, "4"]]},
        {"metric": {"a": "2"}, "values": [[1, "1"]]},
    ]


def test_scalars_strings_and_range_vectors_have_their_own_types() -> None:
    at = Axis.instant(1000)
    assert encode(Result(Scalar(np.array([2.0]))), at) == {
        "resultType": "scalar",
        "result": [1, "2"],
    }
    assert encode(Result(String("x")), at) == {"resultType": "string", "result": [1, "x"]}
    series = Series(Labels.of(a="1"), np.array([10, 20, 30]), np.array([1.0, STALE_NAN, 3.0]))
    assert encode(Result(Matrix((series,))), at) == {
        "resultType": "matrix",
        "result": [{"metric": {"a": "1"}, "values": [[0.01, "1"], [0.03, "3"]]}],
    }
    assert encode(Result(Scalar(np.array([1.0]))), Axis.span(0, 0, 1000)) == {
        "resultType": "matrix",
        "result": [{"metric": {}, "values": [[0, "1"]]}],
    }
