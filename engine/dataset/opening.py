"""`open_data`: what kind of data is this path, and open it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.dataset.csv_form import read_csv
from engine.dataset.errors import DataError
from engine.dataset.parquet_form import is_parquet, read_parquet

if TYPE_CHECKING:
    from engine.dataset.dataset import Dataset, MemoryDataset


def open_data(path: str) -> Dataset:
    """Open recorded data: a recording, or a file in one of the forms. Raises DataError."""
    from engine.recording.reading import Recording, is_recording

    if is_recording(path):
        return Recording(path)
    if not Path(path).exists():
        raise DataError(path, "there is no such file or folder")
    return _read_file(path)


def _read_file(path: str) -> MemoryDataset:
    if is_parquet(path):
        return read_parquet(path)
    return read_csv(path)
