"""CSV in long form, read (engine/dataset/long_form.py has the columns).

Python's csv reader in chunks of rows: a huge file costs its numbers and not its text, and unlike
pandas' reader it tells a row that is too short, which is what a file that was cut short has.
"""

from __future__ import annotations

import csv
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from engine.dataset.assembly import Assembly, rows_read
from engine.dataset.csv_plain import CHUNK_ROWS, read_plain
from engine.dataset.dataset import MemoryDataset, split_derived
from engine.dataset.errors import DataError
from engine.dataset.histogram_texts import parse_histograms, settle
from engine.dataset.long_form import (
    BOTH_HINT,
    HISTOGRAM,
    HISTOGRAM_HINT,
    SECONDS_NOTICE,
    START,
    START_HINT,
    TIMESTAMP,
    VALUE,
    label_columns,
    looks_like_seconds,
    number_rows,
)
from engine.dataset.times import NAIVE_NOTICE, TIME_HINT, parse_starts, parse_times
from engine.dataset.values import parse_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.series import Float64Array, Int64Array, TextArray

# The csv reader of Python 3.10 refuses NUL, which a label value may hold. No text that was UTF-8
# has this lone surrogate.
NUL, STAND_IN = "\0", "\udc00"
# Python's reader takes 131,072 unless told otherwise. A label may hold a whole log line, but a
# quote that is not closed should not take the rest of the file into memory.
LONGEST_FIELD = 16 * 1024 * 1024
READS_NUL = sys.version_info >= (3, 11)


def read_csv(path: str) -> MemoryDataset:
    """Read a file. Raises DataError with `file:line`."""
    csv.field_size_limit(LONGEST_FIELD)
    return _Reader(path).read()


def _readable(lines: Iterable[str]) -> Iterable[str]:
    """What this Python's csv reader takes."""
    return lines if READS_NUL else (line.replace(NUL, STAND_IN) for line in lines)


class _Reader:
    def __init__(self, path: str) -> None:
        self.path = path
        self.assembly = Assembly()
        self.notices: dict[str, None] = {}
        self.rows = 0
        self.header: list[str] = []

    def read(self) -> MemoryDataset:
        with self._text() as file:
            reader = csv.reader(_readable(file), strict=True)
            self.header = self._header(reader)
            plain = read_plain(self.path, self.header)
            if plain is not None:
                return plain
            while rows := self._rows(reader, CHUNK_ROWS):
                self._take(rows)
                self.rows += len(rows)
        found = self.assembly.build()
        for notice in found.notices(lambda conflict: self._place(conflict.row)):
            self.notices[notice] = None
        if not found.series:
            raise DataError(self.path, "holds a header and no samples", "add rows below the header")
        series, derived = split_derived(found.series)
        return MemoryDataset(series, tuple(self.notices), derived=derived)

    def _header(self, reader: Iterator[list[str]]) -> list[str]:
        rows = self._rows(reader, 1)
        if not rows:
            raise DataError(self.path, "is empty", "expected a header line: timestamp,value,...")
        header = [name.strip() for name in rows[0]]
        for needed in (TIMESTAMP, VALUE):
            if needed not in header:
                raise DataError(
                    f"{self.path}:1",
                    f"there is no column '{needed}' (columns: {', '.join(header)})",
                    "long form has the columns timestamp and value; __name__ and every other "
                    "column are labels",
                )
        for name in header:
            if header.count(name) > 1:
                raise DataError(f"{self.path}:1", f"column '{name}' appears twice", "rename one")
            if not name:
                raise DataError(f"{self.path}:1", "a column has no name", "name or remove it")
        return header

    def _rows(self, reader: Iterator[list[str]], count: int) -> list[list[str]]:
        try:
            rows = list(islice(filter(None, reader), count))
        except UnicodeDecodeError:
            lines = Path(self.path).read_bytes().split(b"\n")
            bad = next((n for n, line in enumerate(lines, 1) if not _is_utf8(line)), 1)
            raise DataError(
                f"{self.path}:{bad}",
                "is not UTF-8 text",
                "convert it, for example: iconv -f latin1 -t utf-8",
            ) from None
        except csv.Error as error:
            what = str(error)
            hint = 'quote fields that hold a comma or a quote: "a,""b"""'
            if what == "unexpected end of data":
                what = "a quoted field is not closed before the end of the file"
                hint = "was the file cut short?"
            elif what.startswith("field larger than field limit"):
                what = f"a field has more than {LONGEST_FIELD:,} characters"
                hint = "is a quote not closed? No longer field is read"
            line = getattr(reader, "line_num", 0)
            raise DataError(f"{self.path}:{line}", what, hint) from None
        return rows if READS_NUL else [[f.replace(STAND_IN, NUL) for f in row] for row in rows]

    def _take(self, rows: list[list[str]]) -> None:
        width = len(self.header)
        if set(map(len, rows)) != {width}:
            bad = next(i for i, row in enumerate(rows) if len(row) != width)
            raise DataError(
                self._place(self.rows + bad),
                f"the row has {len(rows[bad])} fields, the header has {width}",
                'quote fields that hold a comma ("a,b"); was the file cut short?'
                if len(rows[bad]) > width
                else "write every field, empty ones too; was the file cut short?",
            )
        columns = dict(zip(self.header, zip(*rows, strict=True), strict=True))
        times, naive, wrong = parse_times(columns[TIMESTAMP])
        if wrong is not None:
            raise DataError(
                self._place(self.rows + wrong),
                f"cannot read the timestamp '{columns[TIMESTAMP][wrong]}'",
                TIME_HINT,
            )
        if naive:
            self.notices[NAIVE_NOTICE] = None
        if looks_like_seconds(times):
            self.notices[SECONDS_NOTICE] = None
        histograms = self._histograms(columns.get(HISTOGRAM, ()))
        values = self._values(columns[VALUE], histograms)
        starts = self._starts(columns.get(START, ()))
        labels = {name: columns[name] for name in label_columns(self.header)}
        numbers = number_rows(labels, len(rows), self.assembly)
        self.assembly.add(numbers, rows_read(times, values, histograms, starts))

    def _values(self, column: Sequence[str], histograms: TextArray | None) -> Float64Array:
        fields = column
        if histograms is not None:
            pairs = zip(column, histograms, strict=True)
            fields = ["NaN" if text and not field.strip() else field for field, text in pairs]
        values, wrong = parse_values(fields)
        if wrong is not None:
            raise DataError(
                self._place(self.rows + wrong),
                f"cannot read the value '{column[wrong]}'",
                "a number, NaN, +Inf, -Inf, or stale for a staleness marker",
            )
        if histograms is None:
            return values
        values, wrong = settle(histograms, values)
        if wrong is not None:
            what = f"there is a value, '{column[wrong]}', beside a histogram"
            raise DataError(self._place(self.rows + wrong), what, BOTH_HINT)
        return values

    def _histograms(self, column: Sequence[str]) -> TextArray | None:
        found, wrong, what = parse_histograms(column)
        if wrong is not None:
            raise DataError(
                self._place(self.rows + wrong), f"cannot read the histogram: {what}", HISTOGRAM_HINT
            )
        return found

    def _starts(self, column: Sequence[str]) -> Int64Array | None:
        starts, naive, wrong = parse_starts(column)
        if wrong is not None:
            what = f"cannot read the start_timestamp '{column[wrong]}'"
            raise DataError(self._place(self.rows + wrong), what, START_HINT)
        if naive:
            self.notices[NAIVE_NOTICE] = None
        return starts

    def _text(self) -> TextIO:
        return Path(self.path).open(encoding="utf-8-sig", newline="")

    def _place(self, row: int) -> str:
        """`file:line` of a data row; read again, because a quoted field may span lines."""
        with self._text() as file:
            reader = csv.reader(_readable(file))
            line, seen = 1, -1
            for fields in reader:
                if fields and seen == row:
                    break
                seen += bool(fields)
                line = reader.line_num + 1
        return f"{self.path}:{line}"


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
