"""Parquet in long form, read: row groups in threads, series as slices of what was decoded.

Rows that lie series by series, as we write them, are cut where a label's code changes: no row is
sorted, compared as text or copied.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from engine.dataset.assembly import SHORT_RUN, Assembly
from engine.dataset.dataset import MemoryDataset, split_derived
from engine.dataset.errors import DataError
from engine.dataset.long_form import (
    DEFAULT_NAME,
    DERIVED,
    HISTOGRAM,
    TIMESTAMP,
    VALUE,
    distinct_rows,
    label_columns,
    labels_of_row,
)
from engine.dataset.parquet_columns import Decoder, is_text
from engine.labels import METRIC_NAME
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.labels import Labels
    from engine.series import Int64Array, Series

Column: TypeAlias = Any  # pyarrow ships no types
# Decoding is bound by memory: more threads than this win nothing.
_MOST_THREADS = 4


def read_parquet(path: str, names: frozenset[str] | None = None) -> MemoryDataset:
    """Read a file; with `names`, only the row groups that may hold one of these metrics.

    Raises DataError.
    """
    with _opened(path) as file:
        return _Reader(path, file, names).read()


def read_labels(path: str, *, derived: bool) -> set[Labels]:
    """The label sets in a file, with `derived` also those of what rules recorded.

    Reads the columns of labels only. Raises DataError.
    """
    with _opened(path) as file:
        found = _Reader(path, file, None).labels()
    return {one.without(DERIVED) for one in found if derived or DERIVED not in one}


@contextmanager
def _opened(path: str) -> Iterator[Column]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(
            path,
            f"is not readable as Parquet ({_first_line(error)})",
            "is the file complete? a recording's hourly file can be removed, its hour is then "
            "missing",
        ) from None
    finally:
        # What decoding held for a moment, arrow would keep until the process ends.
        pa.default_memory_pool().release_unused()


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Decoded rows. `keys`: label texts by series number; `numbers` and `edges` say which rows are
    whose: a number per run between two edges, or, without edges, per row.
    """  # noqa: D205 - one sentence

    samples: Series
    keys: Sequence[tuple[str | None, ...]]
    numbers: Int64Array
    edges: Sequence[int] | None
    notices: Sequence[str]


class _Reader:
    def __init__(self, path: str, file: Column, names: frozenset[str] | None) -> None:
        self.path, self.file, self.names = path, file, names

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
        labels = tuple(label_columns(columns))
        assembly = Assembly()
        notices: dict[str, None] = {}
        for rows in self._decoded(columns, labels):
            if isinstance(rows, int):
                assembly.skip(rows)
                continue
            notices.update(dict.fromkeys(rows.notices))
            add_rows(assembly, labels, rows)
        found = assembly.build()
        for notice in found.notices(lambda conflict: f"{self.path}: row {conflict.row + 1}"):
            notices[notice] = None
        series, derived = split_derived(found.series)
        return MemoryDataset(series, tuple(notices), derived=derived)

    def labels(self) -> set[Labels]:
        """Every label set."""
        names = tuple(label_columns(list(self.file.schema_arrow.names)))
        found: set[Labels] = set()
        for group in range(self.file.num_row_groups):
            table = self.file.read_row_group(group, columns=names)
            if names and table.num_rows:
                keys, _, _ = _keys(Decoder(self.path, 0), table, names)
                found.update(_labels(names, key) for key in keys)
            elif self.file.metadata.row_group(group).num_rows:
                found.add(labels_of_row((), ()))
        return found

    def _decoded(self, columns: Sequence[str], labels: Sequence[str]) -> Iterator[Rows | int]:
        """What each row group holds, in order; of one that need not be read how many rows."""
        metadata = self.file.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        firsts = [0, *np.cumsum(sizes).tolist()]
        wanted = [size > 0 and self._may_hold(group, columns) for group, size in enumerate(sizes)]
        threads = min(len(os.sched_getaffinity(0)), _MOST_THREADS, sum(wanted))
        with ThreadPoolExecutor(max(threads, 1)) as pool:
            try:
                tasks = deque(
                    pool.submit(self._group, group, labels, firsts[group], threads)
                    if wanted[group]
                    else size
                    for group, size in enumerate(sizes)
                )
                while tasks:
                    task = tasks.popleft()
                    yield task if isinstance(task, int) else task.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _may_hold(self, group: int, columns: Sequence[str]) -> bool:
        if self.names is None or METRIC_NAME not in columns or DEFAULT_NAME in self.names:
            return True
        metadata = self.file.metadata.row_group(group)
        for position in range(metadata.num_columns):
            column = metadata.column(position)
            if column.path_in_schema == METRIC_NAME:
                found = column.statistics
                if found is None or not found.has_min_max or found.null_count:
                    return True
                return any(found.min <= name <= found.max for name in self.names)
        return True

    def _group(self, group: int, labels: Sequence[str], first_row: int, threads: int) -> Rows:
        """A row group, read through a file of its own, as threads need it."""
        import pyarrow.parquet as pq

        schema = self.file.schema_arrow
        texts = [
            name
            for name in [*labels, HISTOGRAM]
            if name in schema.names and is_text(schema.field(name).type)
        ]
        with pq.ParquetFile(
            self.path,
            metadata=self.file.metadata,
            read_dictionary=texts,  # as codes at once, which is how the file has it
            page_checksum_verification=True,
        ) as file:
            table = file.read_row_group(group, use_threads=threads == 1)
        return decoded(Decoder(self.path, first_row), table, labels)


def decoded(decoder: Decoder, table: Column, labels: Sequence[str]) -> Rows:
    """All of a table with these label columns. Raises DataError."""
    samples = decoder.samples(table)
    keys, numbers, edges = _keys(decoder, table, labels)
    return Rows(samples, keys, numbers, edges, tuple(decoder.notices))


def _keys(
    decoder: Decoder, table: Column, labels: Sequence[str]
) -> tuple[Sequence[tuple[str | None, ...]], Int64Array, list[int] | None]:
    """The distinct label texts, and which rows are whose, as `Rows` has them."""
    codes, texts = [], []
    for name in labels:
        numbers, distinct = decoder.codes(name, table.column(name))
        codes.append(numbers)
        texts.append(distinct)
    edges, firsts, numbers = _runs(codes, [len(own) for own in texts], table.num_rows)
    columns = [_texts(own, code[firsts]) for code, own in zip(codes, texts, strict=True)]
    keys = list(zip(*columns, strict=True)) if columns else [()] * len(firsts)
    return keys, numbers, edges


def add_rows(assembly: Assembly, labels: tuple[str, ...], rows: Rows) -> None:
    """Add decoded rows; `labels`: their label columns."""
    own = [assembly.number(_labels(labels, key)) for key in rows.keys]
    numbers = np.array(own, dtype=np.int64)[rows.numbers]
    if rows.edges is None:
        assembly.add(numbers, rows.samples)
    else:
        assembly.add_runs(numbers, rows.edges, rows.samples)


def _runs(
    codes: Sequence[Int64Array], counts: Sequence[int], rows: int
) -> tuple[list[int] | None, Int64Array, Int64Array]:
    """Where series begin and end, a row of each series, and whose each run is.

    Where runs are short, rows are numbered one by one instead, and there are no edges.
    """
    changed = np.zeros(max(rows - 1, 0), dtype=np.bool_)
    for own, count in zip(codes, counts, strict=True):
        if count > 1 or own[0] < 0 or own.min() < 0:
            changed |= own[1:] != own[:-1]
    starts = np.concatenate([[0], np.flatnonzero(changed) + 1])
    if starts.size * SHORT_RUN <= rows or starts.size == 1:
        return [*starts.tolist(), rows], starts, np.arange(starts.size)
    firsts, numbers = distinct_rows(
        [(own.astype(np.int64) + 1, count + 1) for own, count in zip(codes, counts, strict=True)],
        rows,
    )
    return None, firsts, numbers


def _texts(distinct: Column, codes: Int64Array) -> list[str | None]:
    """The text of each code, None for -1: one by one, for `pa.array` would import pandas."""
    known: dict[int, str | None] = {
        code: distinct[code].as_py() if code >= 0 else None for code in set(codes.tolist())
    }
    return [known[code] for code in codes.tolist()]


@lru_cache(maxsize=1 << 16)
def _labels(columns: tuple[str, ...], texts: tuple[str | None, ...]) -> Labels:
    """A recording has the same series in each of its files."""
    return labels_of_row(columns, texts)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
