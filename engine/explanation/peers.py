"""An element beside the others of its group."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from engine.explanation.data import nameless, number
from engine.promql.functions.zscores import MAD_OF_NORMAL
from engine.promql.grouping import grouped_labels
from engine.promql.peers import ALIKE, Others

if TYPE_CHECKING:
    from engine.explanation.data import Data, Number
    from engine.labels import Labels
    from rules.promql.ast import Aggregate

# As many peers are named, those with the largest values.
MOST_PEERS: Final = 16


def of_group(
    data: Data, node: Aggregate, time_ms: int, labels: Labels, limit: float | None
) -> dict[str, Any]:
    """The values of the group of the element with these labels, and its place among them."""
    group = grouped_labels(labels, node)
    rows = [
        (own, value)
        for own, value in data.rows(node.expr, time_ms)
        if math.isfinite(value) and grouped_labels(own, node) == group
    ]
    places = [place for place, (own, _) in enumerate(rows) if nameless(own) == nameless(labels)]
    if len(places) != 1 or len(rows) < 2:
        return {}
    (own,) = places
    values = np.array([value for _, value in rows])
    others = Others.of(values[None, :, None], np.ones((1, len(rows), 1), dtype=np.bool_))
    lower, median, upper = (
        float(each[0, own, 0]) for each in (others.lower, others.median, others.upper)
    )
    peers = sorted((row for place, row in enumerate(rows) if place != own), key=lambda row: -row[1])
    return {
        "value_of": number(float(values[own])),
        "place": 1 + int((values > values[own]).sum()),
        "size": len(rows),
        "median": number(median),
        "lower": number(lower),
        "upper": number(upper),
        "expected": _expected(node.op, (lower, median, upper), limit),
        "peers": [
            {"labels": nameless(each).to_dict(), "value": number(value)}
            for each, value in peers[:MOST_PEERS]
        ],
    }


def _expected(
    op: str, quartiles: tuple[float, float, float], limit: float | None
) -> list[Number | None] | None:
    """The values that the rule would not have told of, None where the rule names no number."""
    lower, median, upper = quartiles
    if limit is None or not math.isfinite(limit):
        return None
    if op == "straggler_slowdown":
        return [None, number(limit * median)]
    if op != "straggler_score":
        return None
    least = ALIKE * abs(median)
    below = max((median - lower) / MAD_OF_NORMAL, least)
    above = max((upper - median) / MAD_OF_NORMAL, least)
    return [number(median - abs(limit) * below), number(median + abs(limit) * above)]
