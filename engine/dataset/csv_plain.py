"""CSV of the plainest kind, read by arrow: no quotes, one line a row.

Most files are of this kind, and arrow reads them ten times as fast as Python's csv reader, or three
times where times or values are not plain numbers. Whatever else is not plain, mistakes included, is
left to that reader, which knows every place.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.dataset.assembly import Assembly
from engine.dataset.dataset import MemoryDataset, split_derived
from engine.dataset.long_form import (
    HISTOGRAM,
    START,
    TIMESTAMP,
    VALUE,
    label_columns,
    looks_like_seconds,
)
from engine.dataset.parquet_columns import Decoder
from engine.dataset.parquet_groups import decoded
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.dataset.parquet_groups import Rows
    from engine.series import Int64Array

CHUNK_ROWS = 100_000
_BLOCK_BYTES = 1 << 23


def read_plain(path: str, header: Sequence[str]) -> MemoryDataset | None:
    """A file with this header; None if it is not plain."""
    if START in header or HISTOGRAM in header or not _is_plain(path, header):
        return None
    found = _read(path, header, _numbers)
    return _read(path, header, _texts) if found is None else found


def _read(
    path: str, header: Sequence[str], rows_of: Callable[[str, Sequence[str]], Iterator[Rows]]
) -> MemoryDataset | None:
    """None if anything is not certain: the other reader says what is wrong and where."""
    import pyarrow as pa

    assembly = Assembly()
    notices: dict[str, None] = {}
    try:
        for rows in rows_of(path, header):
            if any(map(looks_like_seconds, _in_chunks(rows.samples.timestamps_ms))):
                return None
            notices.update(dict.fromkeys(rows.notices))
            rows.add_to(assembly)
    except (pa.ArrowException, StallwatchError, ValueError):
        return None
    found = assembly.build()
    if found.repeated or found.conflicting or not found.series:
        return None
    series, derived = split_derived(found.series)
    return MemoryDataset(series, tuple(notices), derived=derived)


def _numbers(path: str, header: Sequence[str]) -> Iterator[Rows]:
    """Rows of whole milliseconds and finite values. Raises ValueError for others."""
    import pyarrow as pa
    import pyarrow.csv as pc

    table = pc.read_csv(path, **_options(header, pa.int64(), pa.float64())).unify_dictionaries()
    if table.num_rows:
        rows = decoded(Decoder(path, 0), table, tuple(label_columns(list(header))))
        # A NaN may be a marker, and an infinity a number that is too large: text decides.
        if not np.isfinite(rows.samples.values).all():
            raise ValueError
        yield rows


def _texts(path: str, header: Sequence[str]) -> Iterator[Rows]:
    """Rows of any times and values, by blocks, for as text they take much memory."""
    import pyarrow as pa
    import pyarrow.csv as pc

    options = _options(header, pa.string(), pa.string(), _BLOCK_BYTES)
    with pc.open_csv(path, **options) as batches:
        for batch in batches:
            if batch.num_rows:
                table = pa.Table.from_batches([batch])
                yield decoded(Decoder(path, 0), table, tuple(label_columns(list(header))))


def _options(
    header: Sequence[str], times: Any, values: Any, block_bytes: int | None = None
) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.csv as pc

    text = pa.dictionary(pa.int32(), pa.string())
    kinds = dict.fromkeys(label_columns(list(header)), text) | {TIMESTAMP: times, VALUE: values}
    return {
        "read_options": pc.ReadOptions(
            column_names=list(header), skip_rows=1, block_size=block_bytes
        ),
        "convert_options": pc.ConvertOptions(
            column_types=kinds, null_values=[], strings_can_be_null=False
        ),
    }


def _in_chunks(times_ms: Int64Array) -> Iterator[Int64Array]:
    """As the other reader would look at them."""
    return (times_ms[at : at + CHUNK_ROWS] for at in range(0, times_ms.size, CHUNK_ROWS))


def _is_plain(path: str, header: Sequence[str]) -> bool:
    """Whether the first line is exactly this header, and no character has a meaning of its own."""
    first = ",".join(header).encode() + b"\n"
    with (
        Path(path).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        special = (b'"', b"\r", b"\0")
        return content[: len(first)] == first and all(content.find(own) < 0 for own in special)
