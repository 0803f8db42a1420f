"""Parquet in long form: a row a sample, labels as columns, sorted by metric name and series.

Values are never dictionary-encoded: a dictionary would make one NaN of all, and the staleness
marker is a NaN. Pages carry checksums, so a flipped bit is an error and not another value.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from engine.dataset.assembly import Assembly
from engine.dataset.dataset import MemoryDataset, split_derived
from engine.dataset.errors import DataError
from engine.dataset.long_form import (
    DERIVED,
    SECONDS_NOTICE,
    TIMESTAMP,
    VALUE,
    column_of_label,
    label_columns,
    looks_like_seconds,
    number_codes,
)
from engine.dataset.times import (
    EARLIEST_MS,
    LATEST_MS,
    NAIVE_NOTICE,
    TIME_HINT,
    out_of_calendar,
    parse_times,
)
from engine.dataset.values import parse_values
from engine.labels import METRIC_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.series import Float64Array, Int64Array, Series

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
    fields += [(column_of_label(name), text) for name in names]
    if derived:
        fields.append((DERIVED, pa.bool_()))
    schema = pa.schema(fields)
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=[column_of_label(name) for name in names],
        column_encoding={TIMESTAMP: "DELTA_BINARY_PACKED", VALUE: "BYTE_STREAM_SPLIT"},
        write_page_checksum=True,
    ) as writer:
        for group in _groups(rows):
            columns = _columns(group, names, derived=bool(derived))
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


def _columns(
    group: Sequence[tuple[Series, bool]], names: Sequence[str], *, derived: bool
) -> list[Column]:
    import pyarrow as pa

    counts = np.array([one.values.size for one, _ in group])
    columns = [
        pa.array(np.concatenate([one.timestamps_ms for one, _ in group])),
        pa.array(np.concatenate([one.values for one, _ in group]), from_pandas=False),
    ]
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


def read_parquet(path: str, name: str = "") -> MemoryDataset:
    """Read a file, only the metric `name` if one is given. Raises DataError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return _Reader(path, file, name).read()
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(
            path,
            f"is not readable as Parquet ({_first_line(error)})",
            "is the file complete? a recording's hourly file can be removed, its hour is then "
            "missing",
        ) from None


class _Reader:
    def __init__(self, path: str, file: Column, name: str) -> None:
        self.path, self.file, self.name = path, file, name
        self.assembly = Assembly()
        self.notices: dict[str, None] = {}
        self.row = 0

    def read(self) -> MemoryDataset:
        columns = list(self.file.schema_arrow.names)
        for needed in (TIMESTAMP, VALUE):
            if needed not in columns:
                raise DataError(
                    self.path,
                    f"there is no column '{needed}' (columns: {', '.join(columns)})",
                    "long form has the columns timestamp and value; __name__ and every other "
                    "column are labels",
                )
        for group in range(self.file.num_row_groups):
            if self._may_hold(group, columns):
                self._take(self.file.read_row_group(group))
        found = self.assembly.build()
        for notice in found.notices(lambda conflict: f"{self.path}: row {conflict.row + 1}"):
            self.notices[notice] = None
        series, derived = split_derived(found.series)
        return MemoryDataset(series, tuple(self.notices), derived=derived)

    def _may_hold(self, group: int, columns: Sequence[str]) -> bool:
        if not self.name or METRIC_NAME not in columns:
            return True
        metadata = self.file.metadata.row_group(group)
        for position in range(metadata.num_columns):
            column = metadata.column(position)
            if column.path_in_schema == METRIC_NAME:
                found = column.statistics
                if found is None or not found.has_min_max or found.null_count:
                    return True
                return bool(found.min <= self.name <= found.max)
        return True

    def _take(self, table: Column) -> None:
        times = self._times(table.column(TIMESTAMP))
        values = self._values(table.column(VALUE))
        if looks_like_seconds(times):
            self.notices[SECONDS_NOTICE] = None
        names = label_columns(table.column_names)
        codes = {name: self._codes(name, table.column(name)) for name in names}
        self.assembly.add(number_codes(codes, table.num_rows, self.assembly), times, values)
        self.row += table.num_rows

    def _complete(self, name: str, column: Column) -> Column:
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise DataError(
                f"{self.path}: row {self.row + row + 1}",
                f"the {name} is missing (null)",
                "leave the row out, or write NaN or a staleness marker",
            )
        return column.combine_chunks()

    def _times(self, column: Column) -> Int64Array:
        import pyarrow as pa

        kind = column.type
        column = self._complete(TIMESTAMP, column)
        if pa.types.is_timestamp(kind):
            if kind.tz is None:
                self.notices[NAIVE_NOTICE] = None
            column = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            texts = column.to_pylist()
            times, naive, bad = parse_times(texts)
            if bad is not None:
                raise DataError(
                    f"{self.path}: row {self.row + bad + 1}",
                    f"cannot read the timestamp '{texts[bad]}'",
                    TIME_HINT,
                )
            if naive:
                self.notices[NAIVE_NOTICE] = None
            return times
        elif pa.types.is_floating(kind):
            numbers = column.to_numpy(zero_copy_only=False)
            bad_rows = ~((numbers >= EARLIEST_MS) & (numbers <= LATEST_MS))
            if bad_rows.any():
                row = int(np.argmax(bad_rows))
                raise DataError(
                    f"{self.path}: row {self.row + row + 1}",
                    f"cannot read the timestamp {numbers[row]}",
                    TIME_HINT,
                )
            whole: Int64Array = np.floor(numbers).astype(np.int64)
            return whole
        elif not pa.types.is_integer(kind):
            raise DataError(
                self.path,
                f"the column timestamp is of type {kind}",
                "unix milliseconds as int64, or a timestamp type",
            )
        found: Int64Array = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        wrong = out_of_calendar(found)
        if wrong is not None:
            raise DataError(
                f"{self.path}: row {self.row + wrong + 1}",
                f"cannot read the timestamp {found[wrong]}",
                TIME_HINT,
            )
        return found

    def _values(self, column: Column) -> Float64Array:
        import pyarrow as pa

        kind = column.type
        column = self._complete(VALUE, column)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            texts = column.to_pylist()
            values, bad = parse_values(texts)
            if bad is not None:
                raise DataError(
                    f"{self.path}: row {self.row + bad + 1}",
                    f"cannot read the value '{texts[bad]}'",
                )
            return values
        if not (
            pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)
        ):
            raise DataError(self.path, f"the column value is of type {kind}", "use float64")
        if kind != pa.float64():
            column = column.cast(pa.float64(), safe=False)
        found: Float64Array = column.to_numpy(zero_copy_only=False)
        return found

    def _codes(self, name: str, column: Column) -> tuple[Int64Array, Sequence[str]]:
        import pyarrow as pa

        if pa.types.is_nested(column.type):
            raise DataError(
                self.path, f"the column '{name}' is of type {column.type}", "labels are text"
            )
        text = column.cast(pa.string()).fill_null("").combine_chunks().dictionary_encode()
        codes = text.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return codes, text.dictionary.to_pylist()


def is_parquet(path: str) -> bool:
    """True if a file starts with Parquet's magic."""
    with Path(path).open("rb") as file:
        return file.read(4) == b"PAR1"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
