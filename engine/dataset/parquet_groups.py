"""A Parquet file in long form by row groups, which are decoded in threads.

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

from engine.dataset.assembly import SHORT_RUN
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
    looks_like_seconds,
)
from engine.dataset.parquet_columns import Decoder, is_text
from engine.dataset.times import out_of_calendar
from engine.labels import METRIC_NAME
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.dataset.assembly import Assembly
    from engine.labels import Labels
    from engine.series import Int64Array, Series

Column: TypeAlias = Any  # pyarrow ships no types
# Decoding is bound by memory: more threads than this win nothing.
_MOST_THREADS = 4


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Whatever arrow has against a file is a DataError."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(
            path,
            f"is not readable as Parquet ({_first_line(error)})",
            "is the file complete? a recording's hourly file can be removed, its hour is then "
            "missing",
        ) from None


@contextmanager
def decoding() -> Iterator[None]:
    """What decoding held for a moment is given back at the end."""
    import pyarrow as pa

    try:
        yield
    finally:
        # Arrow would keep it until the process ends.
        pa.default_memory_pool().release_unused()


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Decoded rows. `keys`: texts of the label `columns` by series number; `numbers` and `edges`
    say which rows are whose: a number per run between two edges, or, without edges, per row.
    """  # noqa: D205 - one sentence

    samples: Series
    columns: tuple[str, ...]
    keys: Sequence[tuple[str | None, ...]]
    numbers: Int64Array
    edges: Sequence[int] | None
    notices: Sequence[str]

    def labels(self) -> list[Labels]:
        """By series number."""
        return [_labels(self.columns, key) for key in self.keys]

    def add_to(self, assembly: Assembly, names: frozenset[str] | None = None) -> None:
        """Add all of the rows, or only those of some metrics."""
        own = [
            assembly.number(labels) if names is None or labels.name in names else -1
            for labels in self.labels()
        ]
        numbers = np.array(own, dtype=np.int64)[self.numbers]
        if self.edges is None:
            assembly.add(numbers, self.samples)
        else:
            assembly.add_runs(numbers, self.edges, self.samples)


class GroupedFile:
    """A file whose footer was read. `sizes`: rows of each group; `labels`: label columns."""

    def __init__(self, path: str) -> None:
        """Raises DataError."""
        import pyarrow.parquet as pq

        self.path = path
        with readable(path), pq.ParquetFile(path) as file:
            self._metadata, self._schema = file.metadata, file.schema_arrow
            self.columns = tuple(self._schema.names)
            self.labels = tuple(label_columns(self.columns))
            groups = range(self._metadata.num_row_groups)
            self.sizes = [self._metadata.row_group(group).num_rows for group in groups]
        self._firsts = [0, *np.cumsum(self.sizes).tolist()]

    def require_samples(self) -> None:
        """Raises DataError if there is no time or no value."""
        for needed in (TIMESTAMP, VALUE):
            if needed not in self.columns:
                raise DataError(
                    self.path,
                    f"there is no column '{needed}' (columns: {', '.join(self.columns)})",
                    "long form has the columns timestamp and value; __name__ and every other "
                    "column are labels",
                )

    def holding(self, names: frozenset[str] | None) -> list[int]:
        """The row groups that have rows and may hold one of these metrics."""
        with readable(self.path):
            return [
                group for group, size in enumerate(self.sizes) if size and self._may(group, names)
            ]

    def span(self, group: int) -> tuple[int, int] | None:
        """The first and last time of a row group that the footer tells to be sound, else None.

        Then leaving it unread hides no mistake that reading every row would find at once.
        """
        with readable(self.path):
            if HISTOGRAM in self.columns or str(self._schema.field(TIMESTAMP).type) != "int64":
                return None
            if DERIVED in self.columns:
                flags = self._statistics(group, DERIVED)
                if flags is None or flags.max is not False:
                    return None  # what rules recorded counts in another way
            times = self._statistics(group, TIMESTAMP)
            values = self._statistics(group, VALUE)
            if times is None or values is None or times.null_count or values.null_count:
                return None
            ends = np.array([times.min, times.max], dtype=np.int64)
        if out_of_calendar(ends) is not None or looks_like_seconds(ends[:1]):
            return None
        return int(ends[0]), int(ends[1])

    def rows(self, group: int, *, alone: bool = True) -> Rows:
        """What a row group holds; `alone`: no other one is decoded meanwhile. Raises DataError."""
        with readable(self.path):
            table = self._table(group, None, alone=alone)
            return decoded(Decoder(self.path, self._firsts[group]), table, self.labels)

    def labels_in(self, group: int) -> list[Labels]:
        """The label sets of a row group; reads the columns of labels only. Raises DataError."""
        with readable(self.path):
            if not self.labels:
                return [labels_of_row((), ())] if self.sizes[group] else []
            table = self._table(group, self.labels, alone=False)
            if not table.num_rows:
                return []
            keys, _, _ = _keys(Decoder(self.path, 0), table, self.labels)
            return [_labels(self.labels, key) for key in keys]

    def _may(self, group: int, names: frozenset[str] | None) -> bool:
        if names is None or METRIC_NAME not in self.columns or DEFAULT_NAME in names:
            return True
        found = self._statistics(group, METRIC_NAME)
        if found is None or found.null_count:
            return True
        return any(found.min <= name <= found.max for name in names)

    def _statistics(self, group: int, column: str) -> Column:
        """What the footer says about a column, None if it does not."""
        metadata = self._metadata.row_group(group)
        for position in range(metadata.num_columns):
            own = metadata.column(position)
            if own.path_in_schema == column:
                found = own.statistics
                return found if found is not None and found.has_min_max else None
        return None

    def _table(self, group: int, columns: Sequence[str] | None, *, alone: bool) -> Column:
        """Read through a file of its own, as threads need it."""
        import pyarrow.parquet as pq

        texts = [
            name
            for name in [*self.labels, HISTOGRAM]
            if name in self._schema.names and is_text(self._schema.field(name).type)
        ]
        with pq.ParquetFile(
            self.path,
            metadata=self._metadata,
            read_dictionary=texts,  # as codes at once, which is how the file has it
            page_checksum_verification=True,
        ) as file:
            return file.read_row_group(group, columns=columns, use_threads=alone)


def in_threads(groups: Iterable[tuple[GroupedFile, int] | None]) -> Iterator[Rows | None]:
    """What row groups hold, in order; a None stays one. Raises DataError."""
    wanted = list(groups)
    with _pool(sum(one is not None for one in wanted)) as (pool, threads):
        tasks = deque(
            None if one is None else pool.submit(one[0].rows, one[1], alone=threads == 1)
            for one in wanted
        )
        while tasks:
            task = tasks.popleft()
            yield None if task is None else task.result()


def labels_in_threads(groups: Iterable[tuple[GroupedFile, int]]) -> Iterator[list[Labels]]:
    """The label sets of row groups, in order. Raises DataError."""
    wanted = list(groups)
    with _pool(len(wanted)) as (pool, _):
        yield from pool.map(lambda one: one[0].labels_in(one[1]), wanted)


@contextmanager
def _pool(tasks: int) -> Iterator[tuple[ThreadPoolExecutor, int]]:
    threads = max(1, min(len(os.sched_getaffinity(0)), _MOST_THREADS, tasks))
    with ThreadPoolExecutor(threads) as pool:
        try:
            yield pool, threads
        finally:
            pool.shutdown(cancel_futures=True)


def decoded(decoder: Decoder, table: Column, labels: tuple[str, ...]) -> Rows:
    """All of a table with these label columns. Raises DataError."""
    samples = decoder.samples(table)
    keys, numbers, edges = _keys(decoder, table, labels)
    return Rows(samples, labels, keys, numbers, edges, tuple(decoder.notices))


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
    """The text of each code, None for -1; from the bytes, for `as_py` is slow for thousands."""
    _, offsets, content = distinct.buffers()
    if distinct.null_count or content is None:
        texts = distinct.to_pylist()
        return [texts[code] if code >= 0 else None for code in codes.tolist()]
    edges = np.frombuffer(offsets, np.int32, len(distinct) + 1, 4 * distinct.offset).tolist()
    raw = content.to_pybytes()
    known: dict[int, str | None] = {
        code: raw[edges[code] : edges[code + 1]].decode() if code >= 0 else None
        for code in set(codes.tolist())
    }
    return [known[code] for code in codes.tolist()]


@lru_cache(maxsize=1 << 16)
def _labels(columns: tuple[str, ...], texts: tuple[str | None, ...]) -> Labels:
    """A recording has the same series in each of its files."""
    return labels_of_row(columns, texts)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
