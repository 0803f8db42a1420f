"""What is known of each total: exactly what was counted, or an estimate where nobody watched.

A total is of a slot (a function, or one kind of its calls) in a process.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.readings import Process
from probes.budget.estimator import Estimate, Estimator, Window
from probes.budget.shares import TICKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from probes.budget.bounds import Floats

Key: TypeAlias = tuple[str, Process]
Vector: TypeAlias = "Sequence[float] | Floats"
Totals: TypeAlias = "Mapping[Key, Vector]"

# Calls of several threads may together spend more than the time there is.
MOST_TRAPPED = 0.9


def born(process: Process) -> float:
    """When a process began, in seconds of CLOCK_MONOTONIC (start_ticks count from the boot)."""
    asleep = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return process.start_ticks / TICKS - asleep


class Ledger:
    """Estimators, made when a function may soon be watched in slices; without one raw is exact.

    `function_of`: the function that a slot belongs to.
    """

    def __init__(
        self,
        function_of: Callable[[str], str] = str,
        born: Callable[[Process], float] = born,
    ) -> None:
        self.function_of = function_of
        self._born = born
        self._estimators: dict[Key, Estimator] = {}
        # Raw totals up to which an estimator knows everything exactly.
        self._counted: dict[Key, Floats] = {}
        # By slot, the highest rate that any process showed.
        self._highest: dict[str, Floats] = {}
        # Functions in slices, since when.
        self._sliced: dict[str, float] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._estimators

    def keys(self, name: str) -> Iterator[Key]:
        """Of the function, those with an estimator."""
        return (key for key in list(self._estimators) if self.function_of(key[0]) == name)

    def of(self, name: str, totals: Totals) -> Iterator[tuple[Key, Vector]]:
        """Of the function, the totals."""
        return (item for item in totals.items() if self.function_of(item[0][0]) == name)

    def rate(self, key: Key) -> float:
        """Traps a second in the newest slice; 0 for what was not in one."""
        estimator = self._estimators.get(key)
        return 0.0 if estimator is None else float(estimator.rate[0])

    def estimate(self, key: Key, raw: Vector, now: float, counter: int = 0) -> Estimate:
        """What a raw total stands for, with the bound of one counter."""
        estimator = self._estimators.get(key)
        if estimator is None:
            return Estimate(np.asarray(raw, dtype=np.float64), 0.0)
        if self.function_of(key[0]) not in self._sliced:
            self._count(key, raw)
        return estimator.at(now, counter)

    def note(self, name: str, before: Totals, after: Totals, seconds: float) -> None:
        """Remember the rates of a stretch in which the function was watched all the time."""
        for key, raw in self.of(name, after):
            if key in before:
                delta = np.subtract(raw, before[key], dtype=np.float64)
                self._count(key, raw).note(delta, seconds)
                self._note_highest(key[0], delta, seconds)

    def note_idle(self, keys: Iterable[Key]) -> None:
        """Remember that these were seen to pause, so that they may do so again unseen."""
        for key in keys:
            if key in self._estimators:
                self._estimators[key].note_idle()

    def begin(self, name: str, now: float, totals: Totals) -> None:
        """From now on the function is watched in slices; `totals` are those of now."""
        self._sliced[name] = now
        for key, raw in self.of(name, totals):
            estimator = self._count(key, raw)
            estimator.begin(now, estimator.rate)

    def add(
        self,
        name: str,
        window: Window,
        before: Totals,
        after: Totals,
        trap_seconds: float = 0.0,
        stretched: Mapping[Process, float] | None = None,
    ) -> None:
        """A slice has been watched, from one reading of the totals to another.

        `trap_seconds`: of CPU time. `stretched`: by process, how much of the clock's time a second
        of it took, 1 where nobody else wanted the CPU.
        """
        traps: dict[Process, float] = {}
        for key, raw in self.of(name, after):
            earlier = float(before[key][0]) if key in before else 0.0
            traps[key[1]] = traps.get(key[1], 0.0) + max(0.0, float(raw[0]) - earlier)
        for key, raw in self.of(name, after):
            values = np.asarray(raw, dtype=np.float64)
            if key not in self._estimators:
                foreign = self._highest.get(key[0])
                estimator = self._estimators[key] = Estimator(len(values), foreign)
                estimator.begin(max(self._sliced[name], self._born(key[1])), np.zeros(len(values)))
            counted = values - before[key] if key in before else values
            lasted = trap_seconds * (stretched or {}).get(key[1], 1.0)
            trapped = min(traps[key[1]] * lasted / window.seconds, MOST_TRAPPED)
            self._estimators[key].add(window, np.maximum(counted, 0.0), trapped)
            self._note_highest(key[0], counted, window.seconds)

    def end(self, name: str, now: float, totals: Totals) -> None:
        """From now on everything that reaches the raw totals is counted."""
        del self._sliced[name]
        for key in self.keys(name):
            estimator = self._estimators[key]
            estimator.end(now)
            if key in totals:
                self._counted[key] = np.asarray(totals[key], dtype=np.float64)

    def unseen(self, processes: Iterable[Process], now: float) -> Iterator[tuple[Key, Floats]]:
        """(slot, process) that no slice has met yet, and how much may have been counted in each.

        As much as if it had called as fast as any other process ever did, since it began.
        """
        known = list(processes)
        for slot, highest in self._highest.items():
            since = self._sliced.get(self.function_of(slot))
            for process in known if since is not None else ():
                if since is not None and (slot, process) not in self._estimators:
                    seconds = now - max(since, self._born(process))
                    yield (slot, process), highest * max(0.0, seconds)

    def _note_highest(self, slot: str, counted: Floats, seconds: float) -> None:
        rate = np.maximum(counted, 0.0) / seconds
        known = self._highest.get(slot)
        self._highest[slot] = rate if known is None else np.maximum(known, rate)

    def forget(self, process: Process) -> None:
        """The process has ended, and its estimates were asked for the last time."""
        for key in [key for key in self._estimators if key[1] == process]:
            del self._estimators[key]
            self._counted.pop(key, None)

    def _count(self, key: Key, raw: Vector) -> Estimator:
        values = np.asarray(raw, dtype=np.float64)
        estimator = self._estimators.get(key)
        if estimator is None:
            estimator = self._estimators[key] = Estimator(len(values))
        before = self._counted.get(key)
        estimator.count(values if before is None else np.maximum(values - before, 0.0))
        self._counted[key] = values
        return estimator
