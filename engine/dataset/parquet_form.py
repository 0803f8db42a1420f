"""Parquet in long form: a row a sample, labels as columns, sorted by metric name and series.

Values are never dictionary-encoded: a dictionary would make one NaN of all, and the staleness
marker is a NaN. Pages carry checksums, so a flipped bit is an error and not another value.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from engine.dataset.long_form import (
    DERIVED,
    HISTOGRAM,
    START,
    TIMESTAMP,
    VALUE,
    column_of_label,
)
from engine.labels import METRIC_NAME
from engine.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Column: TypeAlias = Any  # pyarrow ships no types
_GROUP_ROWS = 256_000


def write_parquet(path: str, series: Sequence[Series], derived: Sequence[Series] = ()) -> None:
    """Write series; `derived` ones are flagged as what rules recorded. Raises OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [(one, False) for one in series] + [(one, True) for one in derived]
    rows.sort(key=lambda row: (row[0].labels.name, row[0].labels.pairs))
    names = sorted({name for one, _ in rows for name, _ in one.labels} | {METRIC_NAME})
    text = pa.dictionary(pa.int32(), pa.string())
    fields = [(TIMESTAMP, pa.int64()), (VALUE, pa.float64())]
    starts = any(one.starts_ms is not None for one, _ in rows)
    natives = any(one.histograms is not None for one, _ in rows)
    fields += [(START, pa.int64())] if starts else []
    fields += [(HISTOGRAM, text)] if natives else []
    fields += [(column_of_label(name), text) for name in names]
    if derived:
        fields.append((DERIVED, pa.bool_()))
    schema = pa.schema(fields)
    dictionaries = [column_of_label(name) for name in names] + ([HISTOGRAM] if natives else [])
    encodings = {TIMESTAMP: "DELTA_BINARY_PACKED", VALUE: "BYTE_STREAM_SPLIT"}
    if starts:
        encodings[START] = "DELTA_BINARY_PACKED"
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=dictionaries,
        column_encoding=encodings,
        write_page_checksum=True,
    ) as writer:
        for group in _groups(rows):
            columns = _samples([one for one, _ in group], starts=starts, natives=natives)
            columns += _labels(group, names, derived=bool(derived))
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _groups(rows: Sequence[tuple[Series, bool]]) -> Iterator[list[tuple[Series, bool]]]:
    group: list[tuple[Series, bool]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += row[0].values.size
        if size >= _GROUP_ROWS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _samples(series: Sequence[Series], *, starts: bool, natives: bool) -> list[Column]:
    """Times and values, and the columns that only some files have."""
    import pyarrow as pa

    whole = Series.joined(series)
    native = whole.histogram_mask if natives else None
    columns = [
        pa.array(whole.timestamps_ms),
        pa.array(whole.values, mask=native, from_pandas=False),
    ]
    if starts:
        none = np.zeros(whole.values.size, dtype=np.int64)
        began = none if whole.starts_ms is None else whole.starts_ms
        columns.append(pa.array(began, mask=began == 0))
    if natives:
        texts = [None] * whole.values.size if whole.histograms is None else list(whole.histograms)
        columns.append(pa.array(texts, pa.string()).dictionary_encode())
    return columns


def _labels(
    group: Sequence[tuple[Series, bool]], names: Sequence[str], *, derived: bool
) -> list[Column]:
    import pyarrow as pa

    counts = np.array([one.values.size for one, _ in group])
    columns = []
    for name in names:
        values = [one.labels.get(name) for one, _ in group]
        distinct = {value: number for number, value in enumerate(dict.fromkeys(values))}
        codes = np.array([distinct[value] for value in values], dtype=np.int32)
        absent = np.array([not value for value in values])
        columns.append(
            pa.DictionaryArray.from_arrays(
                pa.array(np.repeat(codes, counts), mask=np.repeat(absent, counts)),
                pa.array(list(distinct), pa.string()),
            )
        )
    if derived:
        columns.append(pa.array(np.repeat([flag for _, flag in group], counts)))
    return columns


def is_parquet(path: str) -> bool:
    """True if a file starts with Parquet's magic."""
    with Path(path).open("rb") as file:
        return file.read(4) == b"PAR1"
