"""Parquet in long form, read: all of a file, or what a few metrics need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.dataset.assembly import Assembly
from engine.dataset.dataset import MemoryDataset, split_derived
from engine.dataset.parquet_groups import GroupedFile, decoding, in_threads, labels_in_threads
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.labels import Labels


def read_parquet(path: str, names: frozenset[str] | None = None) -> MemoryDataset:
    """Read a file; with `names`, only the row groups that may hold one of these metrics.

    Others are left `unread`, unless there is nothing else in the file. Raises DataError.
    """
    with decoding():
        return _read(GroupedFile(path), names)


def _read(file: GroupedFile, names: frozenset[str] | None) -> MemoryDataset:
    file.require_samples()
    every = file.holding(None)
    wanted = set(file.holding(names)) or set(every)
    spans = {group: file.span(group) for group in every if group not in wanted}
    skipped = {group: span for group, span in spans.items() if span is not None}
    wanted |= spans.keys() - skipped.keys()
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
    unread = (UnreadGroups(file, skipped),) if skipped else ()
    return MemoryDataset(series, tuple(notices), derived=derived, unread=unread)


@dataclass(frozen=True, slots=True, eq=False)
class UnreadGroups:
    """Row groups by number with the times that they span: an `engine.dataset.dataset.Unread`."""

    file: GroupedFile
    spans: Mapping[int, tuple[int, int]]

    @property
    def start_ms(self) -> int:
        """The time of the first sample, unix milliseconds."""
        return min(start_ms for start_ms, _ in self.spans.values())

    @property
    def end_ms(self) -> int:
        """The time of the last sample, unix milliseconds."""
        return max(end_ms for _, end_ms in self.spans.values())

    def labels(self) -> set[Labels]:
        """Whose they are. Raises DataError."""
        with decoding():
            found = labels_in_threads((self.file, group) for group in self.spans)
            return {labels for own in found for labels in own}
