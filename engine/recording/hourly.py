"""A journal becomes the hour's Parquet files: metrics, events and log, each written whole.

Files are written beside their place and renamed; one manifest entry makes all of an hour's files
count, and only then is the journal removed. Whatever a kill leaves is done again at the next open.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.dataset.assembly import Assembly, rows_read
from engine.dataset.dataset import split_derived
from engine.dataset.errors import DataError
from engine.dataset.long_form import DERIVED
from engine.dataset.parquet_form import write_parquet
from engine.recording.framing import sync_folder
from engine.recording.journal import event_of_row, read_journal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.flush import TaskEvent
    from engine.recording.journal import JournalContent
    from engine.recording.manifest import Entry
    from engine.series import Series

JOURNAL_PREFIX, JOURNAL_SUFFIX = "journal-", ".swj"
_EVENT_COLUMNS = ("time_ms", "flush_ms", "kind", "node", "task_id", "rank", "pid", "fields")


def journal_name(stem: str) -> str:
    """`journal-STEM.swj`."""
    return f"{JOURNAL_PREFIX}{stem}{JOURNAL_SUFFIX}"


def journals(folder: str) -> list[str]:
    """The stems of the journals in a folder, in order of time."""
    found = Path(folder).glob(f"{JOURNAL_PREFIX}*{JOURNAL_SUFFIX}")
    return sorted(path.name[len(JOURNAL_PREFIX) : -len(JOURNAL_SUFFIX)] for path in found)


def series_of(content: JournalContent) -> tuple[tuple[Series, ...], tuple[Series, ...]]:
    """A journal's samples as series: plain ones, and what rules recorded."""
    assembly = Assembly()
    flagged: dict[int, int] = {}
    plain = np.array([assembly.number(labels) for labels in content.labels], dtype=np.int64)
    for batch in content.batches:
        numbers = plain[batch.series]
        if batch.derived:
            for own in batch.series.tolist():
                if own not in flagged:
                    labels = content.labels[own].merged({DERIVED: "1"})
                    flagged[own] = assembly.number(labels)
            numbers = np.array([flagged[own] for own in batch.series.tolist()], dtype=np.int64)
        times = np.full(numbers.size, batch.time_ms, dtype=np.int64)
        assembly.add(numbers, rows_read(times, batch.values))
    return split_derived(assembly.build().series)


def seal(folder: str, stem: str) -> Entry:
    """Write the hour's files of a journal; the manifest entry to append. Raises OSError."""
    path = str(Path(folder, journal_name(stem)))
    try:
        content = read_journal(path)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise OSError(errno.EIO, f"is no journal of this format ({error})", path) from error
    plain, derived = series_of(content)
    entry = write_hour(folder, stem, plain, derived, content.events, content.log)
    entry["slots"] = content.slots.to_json()
    if content.torn_bytes:
        entry["torn_bytes"] = content.torn_bytes
    return entry


def write_hour(
    folder: str,
    stem: str,
    plain: Sequence[Series],
    derived: Sequence[Series],
    events: Sequence[TaskEvent],
    log: Sequence[tuple[int, str]] = (),
) -> Entry:
    """Write the files of one hour; the manifest entry to append. Raises OSError."""
    files = []
    if plain or derived:
        both = (*plain, *derived)
        ends = [int(time) for one in both for time in one.timestamps_ms[[0, -1]]]
        files.append(
            _place(folder, "metrics", stem, ends, lambda path: write_parquet(path, plain, derived))
        )
    if events:
        times = [event.time_ms for event in events]
        files.append(_place(folder, "events", stem, times, lambda path: write_events(path, events)))
    if log:
        times = [time_ms for time_ms, _ in log]
        files.append(_place(folder, "log", stem, times, lambda path: write_log(path, log)))
    return {"type": "sealed", "stem": stem, "files": files}


def _place(
    folder: str, kind: str, stem: str, times: Sequence[int], write: Callable[[str], None]
) -> Entry:
    import pyarrow as pa

    name = f"{kind}-{stem}.parquet"
    path = str(Path(folder, name))
    temporary = f"{path}.tmp"
    try:
        write(temporary)
        with Path(temporary).open("rb+") as file:
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
    except (pa.ArrowException, ValueError) as error:
        Path(temporary).unlink(missing_ok=True)
        raise OSError(errno.EIO, f"cannot be written: {error}", path) from error
    sync_folder(folder)
    size = Path(path).stat().st_size
    return {
        "class": kind, "name": name, "start_ms": min(times), "end_ms": max(times), "bytes": size,
    }  # fmt: skip


def write_events(path: str, events: Sequence[TaskEvent]) -> None:
    """Write events, sorted by task and time. Raises OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = sorted(events, key=lambda event: (event.task_id, event.time_ms))
    columns: dict[str, list[Any]] = {
        name: [getattr(event, name) for event in rows] for name in _EVENT_COLUMNS[:-1]
    }
    columns["fields"] = [json.dumps(event.fields) for event in rows]
    pq.write_table(pa.table(columns), path, compression="zstd", write_page_checksum=True)


def read_events(path: str) -> list[TaskEvent]:
    """Read events back. Raises DataError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, page_checksum_verification=True)
        columns = [table.column(name).to_pylist() for name in _EVENT_COLUMNS]
        return [
            event_of_row([*plain, json.loads(fields)])
            for *plain, fields in zip(*columns, strict=True)
        ]
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            path,
            f"is not readable as a recording's events ({str(error).splitlines()[0]})",
            "remove the file; its hour's events are then missing",
        ) from None


def write_log(path: str, lines: Sequence[tuple[int, str]]) -> None:
    """Write log lines in the order they came. Raises OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"time_ms": [time for time, _ in lines], "line": [text for _, text in lines]})
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)
