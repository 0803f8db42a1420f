"""Recorded data in any form that stallwatch reads: recordings, Parquet, CSV, exposition text."""

from engine.dataset.dataset import Dataset, MemoryDataset
from engine.dataset.opening import open_data

__all__ = ["Dataset", "MemoryDataset", "open_data"]
