"""Which times a rule group was evaluated at, and which it missed: runs of equal steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.series import Int64Array

Run: TypeAlias = tuple[int, int, int]
GroupKey: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Times of one group, int64, unix milliseconds, increasing."""

    evaluated: Int64Array
    skipped: Int64Array


@dataclass(slots=True)
class Runs:
    """Increasing times as (start, end, step); a step is 0 while a run has one time."""

    runs: list[list[int]] = field(default_factory=list)

    def add(self, time_ms: int) -> None:
        """Add a time."""
        if self.runs:
            last = self.runs[-1]
            start, end, step = last
            if step == 0 and time_ms > end:
                last[1:] = [time_ms, time_ms - start]
                return
            if time_ms == end + step and step:
                last[1] = time_ms
                return
        self.runs.append([time_ms, time_ms, 0])

    def add_run(self, run: Run) -> None:
        """Add equally spaced times."""
        if run[0] == run[1]:
            self.add(run[0])
        else:
            self.runs.append(list(run))


def expand(runs: Iterable[Iterable[int]]) -> Int64Array:
    """All times of some runs, sorted, each once."""
    parts = [np.arange(start, end + 1, step or 1) for start, end, step in runs]
    if not parts:
        return np.empty(0, dtype=np.int64)
    found: Int64Array = np.unique(np.concatenate(parts)).astype(np.int64)
    return found


@dataclass(slots=True)
class SlotLog:
    """Evaluated and skipped times by group, as a journal collects them."""

    evaluated: dict[GroupKey, Runs] = field(default_factory=dict)
    skipped: dict[tuple[str, str, str], Runs] = field(default_factory=dict)

    def add(self, file: str, group: str, time_ms: int, reason: str | None) -> None:
        """One slot; `reason` None: it was evaluated."""
        self.add_run(file, group, (time_ms, time_ms, 0), reason)

    def add_run(self, file: str, group: str, run: Run, reason: str | None) -> None:
        """Equally spaced slots."""
        if reason is None:
            self.evaluated.setdefault((file, group), Runs()).add_run(run)
        else:
            self.skipped.setdefault((file, group, reason), Runs()).add_run(run)

    def to_json(self) -> list[dict[str, object]]:
        """Rows for the manifest."""
        rows: list[dict[str, object]] = [
            {"file": file, "group": group, "runs": runs.runs}
            for (file, group), runs in self.evaluated.items()
        ]
        rows += [
            {"file": file, "group": group, "reason": reason, "runs": runs.runs}
            for (file, group, reason), runs in self.skipped.items()
        ]
        return rows
