"""When a replay evaluates each group: the grid, less what the recording says was skipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    def slots(self, file: str, group: str) -> Slots:
        """The evaluated and skipped times of a group; both empty if it is not known."""
        ...


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
    """Multiples of the interval since 1970 with start <= t <= end (SEMANTICS line 2)."""
    first = -(-start_ms // interval_ms) * interval_ms
    return np.arange(first, end_ms + 1, interval_ms, dtype=np.int64)


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
    slots = log.slots(group.file, group.name)
    if len(slots.evaluated) and _interval(slots) == interval_ms:
        times_ms = times_ms[np.isin(times_ms, slots.evaluated)]
    else:
        times_ms = times_ms[~np.isin(times_ms, slots.skipped)]
    return Timeline(times_ms, _resets(times_ms, log.restarts, options.max_down_ms))


def _interval(slots: Slots) -> int:
    """The interval that the group had when it was recorded; 0 if that cannot be told."""
    steps = np.diff(np.union1d(slots.evaluated, slots.skipped))
    return int(steps.min()) if len(steps) else 0


def _resets(times_ms: Int64Array, restarts: Sequence[int], max_down_ms: int) -> frozenset[int]:
    """First times after a restart that followed too long an outage."""
    resets = set()
    for restart_ms in restarts:
        after = int(np.searchsorted(times_ms, restart_ms, side="right"))
        if 0 < after < len(times_ms) and restart_ms - int(times_ms[after - 1]) > max_down_ms:
            resets.add(int(times_ms[after]))
    return frozenset(resets)
