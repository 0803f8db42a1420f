"""`open_data`: what kind of data is this path, and open it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from engine.dataset.csv_form import read_csv
from engine.dataset.dataset import MemoryDataset, merge
from engine.dataset.errors import DataError
from engine.dataset.exposition import read_exposition
from engine.dataset.parquet_form import is_parquet
from engine.dataset.parquet_reading import read_parquet

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dataset.dataset import Dataset

FORMS = (
    "a recording (folder), Parquet or CSV in long form (timestamp, value, labels), OpenMetrics or "
    "Prometheus text with timestamps"
)
_SUFFIXES = frozenset({".csv", ".parquet", ".prom", ".om", ".openmetrics", ".txt"})
_SAMPLE = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*\s*(\{|\s[^,]*$)|\{\s*"')
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
# Files of a recording that hold no samples.
_NO_SAMPLES = ("events-", "log-")


def open_data(path: str, *, created: bool = False, names: frozenset[str] | None = None) -> Dataset:
    """Open recorded data: a recording, a file in one of the forms, or a folder of such files.

    `created`: in OpenMetrics, `_created` lines are start timestamps instead of series. `names`: the
    only metrics that will be asked for, if that is known: others may be left unread.
    Raises DataError, which names the file, the line or row, and the mend.
    """
    from engine.recording.reading import Recording, is_recording

    try:
        if not path:
            raise DataError("--data", "the path is empty", "is a variable of the shell not set?")
        if Path(path).is_fifo():
            raise DataError(path, "is a pipe", "data is read more than once: write it to a file")
        if not Path(path).exists():
            raise DataError(path, "there is no such file or folder", f"expected {FORMS}")
        if is_recording(path):
            return Recording(path, names)
        if Path(path).is_dir():
            return _read_folder(path, created=created, names=names)
        return _read_file(path, created=created, names=names)
    except OSError as error:
        where = error.filename or path
        raise DataError(str(where), f"cannot be read: {error.strerror or error}") from None


def _read_folder(path: str, *, created: bool, names: frozenset[str] | None) -> MemoryDataset:
    files = sorted(
        str(file)
        for file in Path(path).iterdir()
        if file.suffix in _SUFFIXES and not file.name.startswith(_NO_SAMPLES) and file.is_file()
    )
    if not files:
        raise DataError(
            path,
            "holds no data: it is no recording (no manifest.jsonl) and has no data files",
            f"expected {FORMS}",
        )
    return merge([_read_file(file, created=created, names=names) for file in files], path)


def _read_file(path: str, *, created: bool, names: frozenset[str] | None) -> MemoryDataset:
    reader = _reader_for(path)
    if reader is read_exposition:
        found = read_exposition(path, created=created)
    else:
        found = read_parquet(path, names) if reader is read_parquet else reader(path)
    if not found.series and not found.derived:
        raise DataError(path, "holds no samples", "is it the right file?")
    return found


def _reader_for(path: str) -> Callable[[str], MemoryDataset]:
    with Path(path).open("rb") as file:
        head = file.read(65_536)
    if not head:
        raise DataError(path, "is empty", f"expected {FORMS}")
    for magic, name in _COMPRESSED.items():
        if head.startswith(magic):
            raise DataError(path, f"is compressed ({name})", "unpack it first")
    suffix = Path(path).suffix
    if suffix == ".parquet" or is_parquet(path):
        return read_parquet
    if suffix == ".csv":
        return read_csv
    if suffix in {".om", ".openmetrics", ".prom"}:
        return read_exposition
    if b"\0" in head:
        raise DataError(path, "is binary data of no known form", f"expected {FORMS}")
    lines = head.decode("utf-8-sig", errors="replace").splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("#") or _SAMPLE.match(first):
        return read_exposition
    if "," in first:
        return read_csv
    raise DataError(path, "is of no known form", f"expected {FORMS}")
