"""Long form, as CSV and Parquet share it: which columns mean what, and rows to series.

A row is a sample: `timestamp` and `value`, optionally `start_timestamp` (since when a counter's
sample has been counting, nothing where unknown) and `histogram` (a native histogram in promqltest's
notation, nothing for a float); `__name__` and every other column are labels.

A label whose own name would be taken for another column is written with the prefix `label.`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.labels import METRIC_NAME, Labels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.dataset.assembly import Assembly
    from engine.series import Int64Array

TIMESTAMP = "timestamp"
VALUE = "value"
START = "start_timestamp"
HISTOGRAM = "histogram"
DERIVED = "__derived__"
DEFAULT_NAME = "value"
_PREFIX = "label."
_RESERVED = frozenset({TIMESTAMP, VALUE, START, HISTOGRAM, DERIVED})
_NO_LABELS = frozenset({TIMESTAMP, VALUE, START, HISTOGRAM})
_FLAG_SET = frozenset({"true", "1"})
# 10^11 ms is March 1973: no cluster recorded data then, but in seconds it is the year 5138.
# Up to so many numbers a table of all of them is cheaper than a sort of those that occur.
_TABLE = 1 << 22
_SECONDS_BELOW = 100_000_000_000

START_HINT = (
    "as a timestamp, or nothing where it is unknown; a label of this name is written in the column "
    f"{_PREFIX}{START}"
)
HISTOGRAM_HINT = (
    "promqltest's notation, {{schema:0 count:5 sum:3 buckets:[1 2 2]}}, or nothing for a float; a "
    f"label of this name is written in the column {_PREFIX}{HISTOGRAM}"
)
BOTH_HINT = "a sample is a number or a native histogram: leave one of the two out"

SECONDS_NOTICE = (
    "timestamps look like unix seconds and were read as milliseconds; multiply them by 1000 if "
    "seconds were meant"
)


def looks_like_seconds(times_ms: Int64Array) -> bool:
    """True if all times fall where unix seconds of our days would."""
    return bool(times_ms.size) and bool(
        ((times_ms > _SECONDS_BELOW // 100) & (times_ms < _SECONDS_BELOW)).all()
    )


def column_of_label(name: str) -> str:
    """The column that holds a label."""
    return _PREFIX + name if name in _RESERVED or name.startswith(_PREFIX) else name


def label_of_column(column: str) -> str:
    """The label that a column holds."""
    return column.removeprefix(_PREFIX)


def labels_of_row(columns: Sequence[str], values: Sequence[str | None]) -> Labels:
    """A row's labels; without a metric name it is called `value`.

    The flag of what rules recorded stays among them as DERIVED="1" until the series are split.
    """
    found: dict[str, str] = {}
    for column, value in zip(columns, values, strict=True):
        if column == DERIVED:
            found[DERIVED] = "1" if (value or "").lower() in _FLAG_SET else ""
        else:
            found[label_of_column(column)] = value or ""
    if not found.get(METRIC_NAME):
        found[METRIC_NAME] = DEFAULT_NAME
    return Labels(found)


def label_columns(columns: Sequence[str]) -> list[str]:
    """The columns that hold labels, the flag of derived series included."""
    return [column for column in columns if column not in _NO_LABELS]


def number_rows(columns: Mapping[str, Sequence[str]], rows: int, assembly: Assembly) -> Int64Array:
    """The series number of each row, from label columns as text."""
    import pandas as pd

    codes = {}
    for name, column in columns.items():
        numbers, distinct = pd.factorize(np.asarray(column, dtype=object))
        codes[name] = (numbers.astype(np.int64), distinct.tolist())
    return number_codes(codes, rows, assembly)


def number_codes(
    columns: Mapping[str, tuple[Int64Array, Sequence[str]]], rows: int, assembly: Assembly
) -> Int64Array:
    """The series number of each row, from label columns as (codes, distinct texts).

    Labels are built once per distinct combination.
    """
    codes = [(own, len(distinct)) for own, distinct in columns.values()]
    first, inverse = distinct_rows(codes, rows)
    names = tuple(columns)
    numbers = np.array(
        [
            assembly.number(
                labels_of_row(
                    names, [distinct[int(codes[row])] for codes, distinct in columns.values()]
                )
            )
            for row in first.tolist()
        ],
        dtype=np.int64,
    )
    found: Int64Array = numbers[inverse]
    return found


def distinct_rows(
    columns: Sequence[tuple[Int64Array, int]], rows: int
) -> tuple[Int64Array, Int64Array]:
    """Columns of codes as (codes >= 0, how many there are): a row of each distinct combination, and
    per row the number of its combination.
    """  # noqa: D205 - one sentence
    numbers: Int64Array = np.zeros(rows, dtype=np.int64)
    count = 1
    for codes, size in columns:
        # Renumbered after each column, so that the product of two cardinalities never overflows.
        numbers, count = _renumbered(numbers * np.int64(size) + codes, count * size)
    first = np.zeros(count, dtype=np.int64)
    # Of several rows the first one written last stays.
    first[numbers[::-1]] = np.arange(rows - 1, -1, -1)
    return first, numbers


def _renumbered(numbers: Int64Array, bound: int) -> tuple[Int64Array, int]:
    """Numbers below a bound, those that occur renumbered from 0, and how many occur."""
    if bound > _TABLE:
        distinct, inverse = np.unique(numbers, return_inverse=True)
        return inverse.reshape(-1).astype(np.int64), distinct.size
    occurs = np.zeros(bound, dtype=np.bool_)
    occurs[numbers] = True
    ranks = np.cumsum(occurs) - 1
    found: Int64Array = ranks[numbers]
    return found, int(occurs.sum())
