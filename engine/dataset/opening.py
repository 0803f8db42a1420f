"""`open_data`: what kind of data is this path, and open it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.dataset.csv_form import read_csv
from engine.dataset.errors import DataError

if TYPE_CHECKING:
    from engine.dataset.dataset import Dataset


def open_data(path: str) -> Dataset:
    """Open recorded data. Raises DataError if it is not data or is broken."""
    if not Path(path).exists():
        raise DataError(path, "there is no such file or folder")
    return read_csv(path)
