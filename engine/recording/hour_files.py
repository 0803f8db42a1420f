"""Metrics files of a recording: many hours read at once, and each row group only once.

A row group is written full, so it can hold many metrics, and rules ask for one after the other.
What was decoded for the first of them is kept, within a bound, until the last has been asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from engine.dataset.assembly import Assembly
from engine.dataset.dataset import MemoryDataset, split_derived
from engine.dataset.errors import DataError
from engine.dataset.long_form import DERIVED
from engine.dataset.parquet_groups import GroupedFile, decoding, in_threads, labels_in_threads
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.dataset.parquet_groups import Rows
    from engine.labels import Labels
    from engine.recording.reading import Part

KEPT_BYTES = 1 << 28


@dataclass(slots=True, eq=False)
class _Mixed:
    """A decoded row group and the metrics of it that have not been asked for."""

    rows: Rows
    waiting: set[str]

    @property
    def nbytes(self) -> int:
        samples = self.rows.samples
        return samples.values.nbytes + samples.timestamps_ms.nbytes


class HourFiles:
    """Files by path, as far as they have been looked into. Thread-safe."""

    def __init__(self, names: frozenset[str] | None = None, kept_bytes: int = KEPT_BYTES) -> None:
        """`names`: the metrics that will be asked for, None if it can be any."""
        self._names, self._kept_bytes = names, kept_bytes
        self._files: dict[str, GroupedFile] = {}
        self._mixed: OrderedDict[tuple[str, int], _Mixed] = OrderedDict()
        self._labels: dict[tuple[str, int], tuple[Labels, ...]] = {}
        self._lock = threading.Lock()

    def read(self, parts: Sequence[Part], name: str) -> MemoryDataset:
        """What consecutive parts hold, only the metric `name` if one is given.

        Where two have a sample of a series at one time, the first's counts. Raises DataError, also
        for a file whose samples are of other times than its part.
        """
        names = frozenset({name}) if name else None
        assembly = Assembly()
        with self._lock, decoding():
            groups = list(self._groups(parts, names))
            known = [self._mixed.get(key) for _, _, key in groups]
            decoded = in_threads(
                (file, key[1]) if mixed is None and file is not None else None
                for (_, file, key), mixed in zip(groups, known, strict=True)
            )
            for (part, _, key), mixed, fresh in zip(groups, known, decoded, strict=True):
                rows = fresh if mixed is None else mixed.rows
                if rows is None:
                    _add_content(assembly, part, name)
                    continue
                self._keep(key, rows, name)
                _check_times(part, rows)
                rows.add_to(assembly, names)
            self._forget()
        series, derived = split_derived(assembly.build().series)
        return MemoryDataset(series, derived=derived)

    def labels(self, parts: Sequence[Part], *, derived: bool) -> set[Labels]:
        """All label sets, with `derived` also those of what rules recorded. Raises DataError."""
        with self._lock, decoding():
            groups = [(file, key) for _, file, key in self._groups(parts, None) if file is not None]
            new = [(file, key) for file, key in groups if key not in self._labels]
            read = labels_in_threads((file, group) for file, (_, group) in new)
            for (_, key), labels in zip(new, read, strict=True):
                self._labels[key] = tuple(labels)
            every = {one for _, key in groups for one in self._labels[key]}
        return {one.without(DERIVED) for one in every if derived or DERIVED not in one}

    def _groups(
        self, parts: Iterable[Part], names: frozenset[str] | None
    ) -> Iterator[tuple[Part, GroupedFile | None, tuple[str, int]]]:
        """Row groups that may hold the metrics, by file and number; no file: what is in memory."""
        for part in parts:
            if part.content is not None:
                yield part, None, ("", 0)
            elif Path(part.path).exists():  # retention may have removed it meanwhile
                file = self._files.get(part.path)
                if file is None:
                    file = self._files[part.path] = GroupedFile(part.path)
                    file.require_samples()
                for group in file.holding(names):
                    yield part, file, (part.path, group)

    def _keep(self, key: tuple[str, int], rows: Rows, name: str) -> None:
        """Remember what is in a row group, and the group as long as others will want it."""
        mixed = self._mixed.pop(key, None)
        if key not in self._labels:
            self._labels[key] = tuple(rows.labels())
        if mixed is None:
            waiting = {one.name for one in self._labels[key]} if name else set()
            mixed = _Mixed(rows, waiting if self._names is None else waiting & self._names)
        mixed.waiting.discard(name)
        if mixed.waiting:
            self._mixed[key] = mixed

    def _forget(self) -> None:
        held = sum(mixed.nbytes for mixed in self._mixed.values())
        while held > self._kept_bytes:
            _, gone = self._mixed.popitem(last=False)
            held -= gone.nbytes


def _add_content(assembly: Assembly, part: Part, name: str) -> None:
    if part.content is None:
        return
    flagged = (one.relabelled(one.labels.merged({DERIVED: "1"})) for one in part.content.derived)
    for one in (*part.content.series, *flagged):
        if not name or one.labels.name == name:
            assembly.add_series(one)


def _check_times(part: Part, rows: Rows) -> None:
    times_ms = rows.samples.timestamps_ms
    if times_ms.min() < part.start_ms or times_ms.max() > part.end_ms:
        raise DataError(
            part.path,
            "is not the file that was recorded: its samples are of other times than the "
            "manifest says",
            "was it renamed or copied? put the recorded file back, or remove this one",
        )
