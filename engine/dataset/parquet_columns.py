"""Columns of Parquet in long form as arrays, or one error that names the row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from engine.dataset.assembly import rows_read
from engine.dataset.errors import DataError
from engine.dataset.histogram_texts import mistake, settle
from engine.dataset.long_form import (
    BOTH_HINT,
    HISTOGRAM,
    HISTOGRAM_HINT,
    SECONDS_NOTICE,
    START,
    START_HINT,
    TIMESTAMP,
    VALUE,
    looks_like_seconds,
)
from engine.dataset.times import (
    EARLIEST_MS,
    LATEST_MS,
    NAIVE_NOTICE,
    TIME_HINT,
    out_of_calendar,
    parse_starts,
    parse_times,
)
from engine.dataset.values import parse_values
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from engine.series import Float64Array, Int64Array, Series, TextArray

Column: TypeAlias = Any  # pyarrow ships no types
_PLAIN_STAMP = (
    r"\A(19|20)[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{3})?Z\z"
)


def is_text(kind: Column) -> bool:
    """Whether a column's type is one of strings."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


@dataclass(slots=True)
class Decoder:
    """Columns of a row group to arrays; `row`: where in the file they begin."""

    path: str
    row: int
    notices: dict[str, None] = field(default_factory=dict)

    def samples(self, table: Column) -> Series:
        """What the rows hold, less their labels. Raises DataError."""
        there = table.column_names
        times_ms = self._times(table.column(TIMESTAMP))
        if looks_like_seconds(times_ms):
            self.notices[SECONDS_NOTICE] = None
        histograms = self._histograms(table.column(HISTOGRAM)) if HISTOGRAM in there else None
        values = self._values(table.column(VALUE), histograms)
        starts = self._starts(table.column(START)) if START in there else None
        return rows_read(times_ms, values, histograms, starts)

    def _refused(self, row: int, what: str, hint: str = "") -> DataError:
        return DataError(f"{self.path}: row {self.row + row + 1}", what, hint)

    def _complete(self, name: str, column: Column) -> Column:
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            what = f"the {name} is missing (null)"
            raise self._refused(row, what, "leave the row out, or write NaN or a staleness marker")
        return column.combine_chunks()

    def _times(self, column: Column) -> Int64Array:
        column = self._complete(TIMESTAMP, column)
        if is_text(column.type):
            plain = _plain_stamps(column)
            if plain is not None:
                return plain
            texts = column.to_pylist()
            times, naive, bad = parse_times(texts)
            if bad is not None:
                raise self._refused(bad, f"cannot read the timestamp '{texts[bad]}'", TIME_HINT)
            if naive:
                self.notices[NAIVE_NOTICE] = None
            return times
        mend = "unix milliseconds as int64, or a timestamp type"
        self._require_times(TIMESTAMP, column.type, mend)
        return self._stamps(TIMESTAMP, column, TIME_HINT)

    def _starts(self, column: Column) -> Int64Array | None:
        """0 where unknown; None if all are."""
        import pyarrow as pa

        if column.null_count == len(column):
            return None
        if is_text(column.type):
            texts = [text or "" for text in column.to_pylist()]
            starts, naive, bad = parse_starts(texts)
            if bad is not None:
                what = f"cannot read the start_timestamp '{texts[bad]}'"
                raise self._refused(bad, what, START_HINT)
            if naive:
                self.notices[NAIVE_NOTICE] = None
            return starts
        self._require_times(START, column.type, START_HINT)
        nothing = pa.scalar(0, pa.int64()).cast(column.type)
        column = column.combine_chunks().fill_null(nothing)
        if pa.types.is_floating(column.type):
            numbers = _numbers(column.cast(pa.float64()), "f8")
            # NaN is what pandas leaves where there is none.
            column = pa.array(np.where(np.isnan(numbers), 0.0, numbers))
        return self._stamps(START, column, START_HINT)

    def _require_times(self, name: str, kind: Column, hint: str) -> None:
        import pyarrow as pa

        types = pa.types
        if not (types.is_timestamp(kind) or types.is_floating(kind) or types.is_integer(kind)):
            raise DataError(self.path, f"the column {name} is of type {kind}", hint)

    def _stamps(self, name: str, column: Column, hint: str) -> Int64Array:
        """Unix milliseconds of a column without nulls that is no text."""
        import pyarrow as pa

        kind = column.type
        if pa.types.is_timestamp(kind):
            if kind.tz is None:
                self.notices[NAIVE_NOTICE] = None
            column = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        elif pa.types.is_floating(kind):
            numbers = _numbers(column.cast(pa.float64()), "f8")
            bad_rows = ~((numbers >= EARLIEST_MS) & (numbers <= LATEST_MS))
            if bad_rows.any():
                row = int(np.argmax(bad_rows))
                raise self._refused(row, f"cannot read the {name} {numbers[row]}", hint)
            whole: Int64Array = np.floor(numbers).astype(np.int64)
            return whole
        found: Int64Array = _numbers(column.cast(pa.int64()), "i8")
        wrong = out_of_calendar(found)
        if wrong is not None:
            raise self._refused(wrong, f"cannot read the {name} {found[wrong]}", hint)
        return found

    def _histograms(self, column: Column) -> TextArray | None:
        """The texts, None for a float; None if there is no histogram."""
        import pyarrow as pa

        if column.null_count == len(column):
            return None
        kind = column.type
        text = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not is_text(text):
            raise DataError(self.path, f"the column histogram is of type {kind}", HISTOGRAM_HINT)
        codes, distinct = self.codes(HISTOGRAM, column)
        texts: list[str | None] = [(one or "").strip() or None for one in distinct.to_pylist()]
        for code in np.unique(codes[codes >= 0]).tolist():
            own = texts[code]
            if own is not None and (wrong := mistake(own)):
                what = f"cannot read the histogram: {wrong}"
                raise self._refused(int(np.argmax(codes == code)), what, HISTOGRAM_HINT)
        # A code of -1 finds the None at the end.
        found: TextArray = np.array([*texts, None], dtype=np.object_)[codes]
        return found if any(one is not None for one in found) else None

    def _values(self, column: Column, histograms: TextArray | None) -> Float64Array:
        if histograms is None:
            return self._numbers(column)
        import pyarrow as pa

        missing = column.is_null().to_numpy(zero_copy_only=False).astype(np.bool_)
        bare = missing & np.array([text is None for text in histograms])
        if bare.any():
            row, hint = int(np.argmax(bare)), "a row has a value or a histogram"
            raise self._refused(row, "the value is missing (null)", hint)
        if is_text(column.type):
            texts = column.to_pylist()
            pairs = zip(texts, histograms, strict=True)
            column = pa.chunked_array(
                [["NaN" if own and not text else text for text, own in pairs]]
            )
        elif missing.any():
            column = column.cast(pa.float64(), safe=False).fill_null(float("nan"))
        given = self._numbers(column)
        values, doubled = settle(histograms, given)
        if doubled is not None:
            what = f"there is a value, {given[doubled]}, beside a histogram"
            raise self._refused(doubled, what, BOTH_HINT)
        return values

    def _numbers(self, column: Column) -> Float64Array:
        import pyarrow as pa

        kind = column.type
        column = self._complete(VALUE, column)
        if is_text(kind):
            texts = column.to_pylist()
            values, bad = parse_values(texts)
            if bad is not None:
                raise self._refused(bad, f"cannot read the value '{texts[bad]}'")
            return values
        if not (
            pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)
        ):
            raise DataError(self.path, f"the column value is of type {kind}", "use float64")
        if kind != pa.float64():
            column = column.cast(pa.float64(), safe=False)
        found: Float64Array = _numbers(column, "f8")
        return found

    def codes(self, name: str, column: Column) -> tuple[Int64Array, Column]:
        """Codes, -1 for none, and the text of each."""
        import pyarrow as pa

        if pa.types.is_nested(column.type):
            raise DataError(
                self.path, f"the column '{name}' is of type {column.type}", "labels are text"
            )
        encoded = column.combine_chunks()
        if not pa.types.is_dictionary(encoded.type):
            encoded = encoded.dictionary_encode()
        indices = encoded.indices.fill_null(-1) if encoded.null_count else encoded.indices
        width = indices.type.bit_width // 8
        return _numbers(indices, f"i{width}"), encoded.dictionary.cast(pa.string())


def _plain_stamps(column: Column) -> Int64Array | None:
    """Unix milliseconds of RFC 3339 in UTC of our days, None if any text is of another kind."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.all(pc.match_substring_regex(column, _PLAIN_STAMP)).as_py():
        return None
    try:
        stamps = column.cast(pa.timestamp("ms", "UTC"))
    except pa.ArrowInvalid:
        return None  # no such day
    found: Int64Array = _numbers(stamps.cast(pa.int64()), "i8")
    return found


def _numbers(column: Column, dtype: str) -> Any:
    """A column of numbers without nulls as it lies in memory.

    Not `to_numpy`, which imports pandas.
    """
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * int(dtype[-1]))
