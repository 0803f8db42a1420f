"""Parquet in long form, read: all of a file, or what a few metrics need."""

from __future__ import annotations

from engine.dataset.assembly import Assembly
from engine.dataset.dataset import MemoryDataset, split_derived
from engine.dataset.parquet_groups import GroupedFile, decoding, in_threads


def read_parquet(path: str, names: frozenset[str] | None = None) -> MemoryDataset:
    """Read a file; with `names`, only the row groups that may hold one of these metrics.

    Raises DataError.
    """
    with decoding():
        return _read(GroupedFile(path), names)


def _read(file: GroupedFile, names: frozenset[str] | None) -> MemoryDataset:
    file.require_samples()
    wanted = set(file.holding(names))
    assembly = Assembly()
    notices: dict[str, None] = {}
    groups = [(file, group) if group in wanted else None for group in range(len(file.sizes))]
    for size, rows in zip(file.sizes, in_threads(groups), strict=True):
        if rows is None:
            assembly.skip(size)
            continue
        notices.update(dict.fromkeys(rows.notices))
        rows.add_to(assembly)
    found = assembly.build()
    for notice in found.notices(lambda conflict: f"{file.path}: row {conflict.row + 1}"):
        notices[notice] = None
    series, derived = split_derived(found.series)
    return MemoryDataset(series, tuple(notices), derived=derived)
