"""When a replay evaluates each group: the grid, less what the recording says was skipped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from engine.rulegroup.state import is_too_long_down
from engine.timestamps import format_rfc3339
from rules.errors import StallwatchError
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.rulegroup.options import GroupOptions
    from engine.series import Int64Array
    from rules.model import Group


class Slots(Protocol):
    """Times of one group, int64, unix milliseconds, increasing."""

    @property
    def evaluated(self) -> Int64Array:
        """Times at which the group was evaluated."""
        ...

    @property
    def skipped(self) -> Int64Array:
        """Times at which it should have been."""
        ...


@runtime_checkable
class EvaluationLog(Protocol):
    """What a recording knows beyond its samples."""

    @property
    def restarts(self) -> Sequence[int]:
        """When the agent started, unix milliseconds."""
        ...

    @property
    def groups(self) -> Sequence[tuple[str, str]]:
        """(file, group) of every group with a logged slot."""
        ...

    @property
    def intervals(self) -> Mapping[tuple[str, str], int]:
        """Evaluation interval in milliseconds by (file, group)."""
        ...

    def slots(self, file: str, group: str) -> Slots:
        """The evaluated and skipped times of a group; both empty if it is not known."""
        ...


# A year at three seconds; beyond it, the end of the range is a typing error.
MOST_TIMES = 10_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """`times_ms`: int64[T], when a group is evaluated. `resets_ms`: those of them before which
    its alert state begins anew.
    """  # noqa: D205 - one sentence

    times_ms: Int64Array
    resets_ms: frozenset[int] = frozenset()

    def between(self, start_ms: int, end_ms: int) -> Int64Array:
        """The times with start <= t < end."""
        first, last = np.searchsorted(self.times_ms, (start_ms, end_ms))
        return self.times_ms[first:last]


def grid(start_ms: int, end_ms: int, interval_ms: int) -> Int64Array:
    """Multiples of the interval since 1970 with start <= t <= end (docs/semantics.md, 2).

    Raises StallwatchError for more of them than anybody means.
    """
    first = -(-start_ms // interval_ms) * interval_ms
    if (end_ms - first) // interval_ms >= MOST_TIMES:
        raise StallwatchError(
            f"stallwatch: more than {MOST_TIMES:,} evaluation times from "
            f"{format_rfc3339(start_ms)} to {format_rfc3339(end_ms)}\n"
            "    hint: a nearer --start or --end, or a longer --interval"
        )
    return np.arange(first, end_ms + 1, interval_ms, dtype=np.int64)


def recorded_group(group: Group, log: EvaluationLog) -> tuple[str, str] | None:
    """The (file, group) under which a group is in the log; None: it was not evaluated live.

    Where the rule file has another path now, the same file name decides, then the group's name.
    """
    if (group.file, group.name) in log.groups:
        return group.file, group.name
    named = [key for key in log.groups if key[1] == group.name]
    same_file = [key for key in named if Path(key[0]).name == Path(group.file).name]
    for candidates in (same_file, named):
        if len(candidates) == 1:
            return candidates[0]
    return None


def timeline(
    group: Group,
    options: GroupOptions,
    start_ms: int,
    end_ms: int,
    log: EvaluationLog | None,
) -> Timeline:
    """A group's times in [start, end]. With a log: as they were live; without: the whole grid."""
    interval_ms = options.interval_of(group)
    times_ms = grid(start_ms, end_ms, interval_ms)
    if log is None:
        return Timeline(times_ms)
    key = recorded_group(group, log)
    if key is None:
        times_ms = times_ms[~np.isin(times_ms, _missed_by_all(log))]
    elif log.intervals.get(key) == interval_ms:
        times_ms = times_ms[np.isin(times_ms, log.slots(*key).evaluated)]
    else:
        times_ms = times_ms[~np.isin(times_ms, log.slots(*key).skipped)]
    resets_ms = _resets(times_ms, log.restarts, interval_ms, options.max_down_ms)
    return Timeline(times_ms, resets_ms)


def _missed_by_all(log: EvaluationLog) -> Int64Array:
    """Times at which some group was skipped and none evaluated: the agent was not there."""
    slots = [log.slots(*key) for key in log.groups]
    nothing = np.empty(0, dtype=np.int64)
    skipped = np.concatenate([nothing, *(own.skipped for own in slots)])
    evaluated = np.concatenate([nothing, *(own.evaluated for own in slots)])
    missed: Int64Array = np.setdiff1d(skipped, evaluated)
    return missed


def _resets(
    times_ms: Int64Array, restarts: Sequence[int], interval_ms: int, max_down_ms: int
) -> frozenset[int]:
    """First times after a restart that followed too long an outage."""
    resets = set()
    for restart_ms in restarts:
        after = int(np.searchsorted(times_ms, restart_ms, side="right"))
        if not 0 < after < len(times_ms):
            continue
        last_ms = int(times_ms[after - 1])
        if is_too_long_down(last_ms, restart_ms, interval_ms, max_down_ms):
            resets.add(int(times_ms[after]))
    return frozenset(resets)
