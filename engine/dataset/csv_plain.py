"""CSV of the plainest kind, read by arrow: no quotes, whole milliseconds, finite values.

Most files are of this kind, and arrow reads them ten times as fast as Python's csv reader. Whatever
is not plain, mistakes included, is left to that reader, which knows every place.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING

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
    from collections.abc import Sequence


def read_plain(path: str, header: Sequence[str]) -> MemoryDataset | None:
    """A file with this header; None if it is not plain."""
    import pyarrow as pa
    import pyarrow.csv as pc

    if START in header or HISTOGRAM in header or not _is_plain(path, header):
        return None
    labels = tuple(label_columns(list(header)))
    text = pa.dictionary(pa.int32(), pa.string())
    kinds = dict.fromkeys(labels, text) | {TIMESTAMP: pa.int64(), VALUE: pa.float64()}
    try:
        table = pc.read_csv(
            path,
            read_options=pc.ReadOptions(column_names=list(header), skip_rows=1),
            convert_options=pc.ConvertOptions(
                column_types=kinds, null_values=[], strings_can_be_null=False
            ),
        ).unify_dictionaries()
        if not table.num_rows:
            return None
        rows = decoded(Decoder(path, 0), table, labels)
    except (pa.ArrowException, StallwatchError, ValueError):
        return None  # the other reader says what is wrong and where
    # A NaN may be a marker, and an infinity a number that is too large: text decides.
    samples = rows.samples
    if not np.isfinite(samples.values).all() or looks_like_seconds(samples.timestamps_ms):
        return None
    assembly = Assembly()
    rows.add_to(assembly)
    found = assembly.build()
    if found.repeated or found.conflicting:
        return None
    series, derived = split_derived(found.series)
    return MemoryDataset(series, derived=derived)


def _is_plain(path: str, header: Sequence[str]) -> bool:
    """Whether the first line is exactly this header, and no character has a meaning of its own."""
    first = ",".join(header).encode() + b"\n"
    with (
        Path(path).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        special = (b'"', b"\r", b"\0")
        return content[: len(first)] == first and all(content.find(own) < 0 for own in special)
