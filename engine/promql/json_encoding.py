"""A result as the `data` object of Prometheus' query API (web/api/v1, util/jsonutil there)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from engine.promql.numbers import format_value
from engine.promql.value import Matrix, Scalar, String, Vector
from engine.series import stale_mask
from engine.timestamps import unix_seconds

if TYPE_CHECKING:
    from engine.promql.value import Axis, Result
    from engine.series import Float64Array, Int64Array


def encode(result: Result, axis: Axis) -> dict[str, Any]:
    """`{"resultType": ..., "result": ...}`; an axis with step 0 is an instant query.

    Times are numbers in unix seconds, values are strings. A series with no value is left out.
    """
    match result.value:
        case Matrix(series=series):
            rows = []
            for one in series:
                keep = ~stale_mask(one.values)
                rows.append(_row(one.labels.to_dict(), one.timestamps_ms[keep], one.values[keep]))
            return {"resultType": "matrix", "result": [row for row in rows if row["values"]]}
        case String(value=text):
            return {"resultType": "string", "result": [unix_seconds(int(axis.times_ms[0])), text]}
        case Scalar(values=values) if axis.step_ms:
            return {"resultType": "matrix", "result": [_row({}, axis.times_ms, values)]}
        case Scalar(values=values):
            pair = [unix_seconds(int(axis.times_ms[0])), format_value(float(values[0]))]
            return {"resultType": "scalar", "result": pair}
        case Vector() as vector if axis.step_ms:
            return {"resultType": "matrix", "result": _matrix(vector, axis.times_ms)}
        case Vector() as vector:
            return {"resultType": "vector", "result": _vector(vector, int(axis.times_ms[0]))}


def _matrix(vector: Vector, times_ms: Int64Array) -> list[dict[str, Any]]:
    order = sorted(range(len(vector.labels)), key=lambda row: vector.labels[row])
    result = []
    for row in order:
        keep = vector.present[row]
        if keep.any():
            metric = vector.labels[row].to_dict()
            result.append(_row(metric, times_ms[keep], vector.values[row][keep]))
    return result


def _vector(vector: Vector, time_ms: int) -> list[dict[str, Any]]:
    order = vector.order if vector.order is not None else range(len(vector.labels))
    at = unix_seconds(time_ms)
    return [
        {
            "metric": vector.labels[row].to_dict(),
            "value": [at, format_value(float(vector.values[row, 0]))],
        }
        for row in order
        if vector.present[row, 0]
    ]


def _row(metric: dict[str, str], times_ms: Int64Array, values: Float64Array) -> dict[str, Any]:
    pairs = zip(times_ms.tolist(), np.asarray(values).tolist(), strict=True)
    return {"metric": metric, "values": [[unix_seconds(t), format_value(v)] for t, v in pairs]}
