"""Calls counted within a budget: what `CallTotals` tells, scaled up where it was not watching.

self._calls = Governed(self.name, totals, sites, FUNCTIONS, settings.budget)
self._calls.poll()                  # in poll
look = self._calls.look()           # in collect, instead of totals.look()
for reading in self._calls.readings("cuda_calls", slot_labels): ...
self._calls.join(process)           # instead of totals.join, as leave instead of totals.leave
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.readings import Level
from probes.budget.contention import turns
from probes.budget.governor import Governor
from probes.budget.ledger import Ledger
from probes.budget.pool import AGENT, Pool
from probes.budget.shares import cpu_seconds
from probes.functions.records import Total
from probes.functions.totals import Calls, Look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.readings import Pairs, Process, Reading
    from probes.budget.bounds import Floats
    from probes.budget.contention import Turns
    from probes.budget.ledger import Key, Totals
    from probes.budget.settings import BudgetConfig
    from probes.functions.function import Function
    from probes.functions.sites import FunctionSites
    from probes.functions.totals import CallTotals
    from probes.sampling.addresses import Span

# Where things are in a vector of totals.
TRAPS, CALLS, TIMED, ERRORS, ABANDONED, SUM, BYTES, FIRST_BUCKET = range(8)


def to_vector(total: Total) -> Floats:
    """All sums of a total, traps first."""
    parts = (
        *(total.hits, total.calls, total.timed, total.errors, total.abandoned),
        *(total.sum, total.bytes_total, *total.buckets),
    )
    return np.array(parts, dtype=np.float64)


def to_total(vector: Sequence[int], hits: int, last: int) -> Total:
    """The total of a vector's whole numbers; hits are what the kernel counted, never scaled."""
    return Total(
        hits,
        *(vector[CALLS], vector[TIMED], vector[ERRORS], vector[ABANDONED]),
        *(vector[SUM], vector[BYTES], last, tuple(vector[FIRST_BUCKET:])),
    )


class Governed:
    """`look` gives what `CallTotals.look` gives, in estimates where a function is in slices.

    `function_of`: the function that a slot belongs to, by their names. One thread uses it.
    """

    def __init__(
        self,
        probe: str,
        totals: CallTotals,
        sites: FunctionSites,
        functions: Sequence[Function],
        settings: BudgetConfig,
        *,
        function_of: Callable[[str], str] = str,
        pool: Pool = AGENT,
    ) -> None:
        self._totals = totals
        self._function_of = function_of
        self._sites = sites
        ledger = Ledger(function_of)
        self.governor = Governor(
            *(probe, self, functions, settings), ledger=ledger, pool=pool, turns=self._turns
        )
        # Since a process was first seen; what of that was told; its hits that were not.
        self._raw: dict[Key, Floats] = {}
        self._told: dict[Key, Floats] = {}
        self._hits: dict[Key, int] = {}
        self._last: dict[Key, int] = {}
        self._unowned: list[Calls] = []
        self._bounds: dict[Key, float] = {}
        self._processes: set[Process] = set()
        self._leaving: list[Process] = []
        self._look = Look(0, (), ())

    def poll(self) -> None:
        """Begin and end the slices that are due."""
        self.governor.poll(self._read)

    def look(self) -> Look:
        """What was called since the last look; compares its cost with the budget."""
        self.governor.step(self._read(), processes=self._processes)
        calls, self._unowned = self._unowned, []
        self._bounds = {}
        for key in list(self._raw):
            calls += self._tell(key)
        for key, unseen in self.governor.unseen(self._processes):
            self._bounds[key] = float(unseen[CALLS])
        # Forked processes are counted though nobody watches them: nobody says when they end.
        unwatched = {process for _, process in self._raw} - self._processes
        for process in (*self._leaving, *(each for each in unwatched if cpu_seconds(each) is None)):
            self._forget(process)
        self._leaving = []
        return Look(self._look.now, tuple(calls), self._look.open, self._look.callers)

    def join(self, process: Process) -> None:
        """A process is watched, though nothing was counted of it yet."""
        self._totals.join(process)
        self._processes.add(process)

    def leave(self, process: Process) -> None:
        """A process ended; the next look tells the last of it."""
        self._totals.leave(process)
        self._leaving.append(process)

    def readings(self, metric: str, labels: Callable[[str], Pairs]) -> Iterator[Reading]:
        """After a look: `<metric>_error_bound` of each count of calls, and the budget's metrics.

        `labels`: those of a slot. Slots of equal labels add up.
        """
        for (slot, process), bound in self._bounds.items():
            yield Level(f"{metric}_error_bound", process, bound, labels(slot), "sum")
        yield from self.governor.levels()

    def close(self) -> None:
        """Leave the budget to others."""
        self.governor.close()

    # What the governor does to breakpoints.

    def suspend(self, name: str) -> None:
        """Detach a function everywhere."""
        self._sites.suspend(name)

    def resume(self, name: str) -> None:
        """Attach it again; a call that was in flight when it was detached is not waited for."""
        self._totals.close_open(
            each for each in self._totals.names if self._function_of(each) == name
        )
        self._sites.resume(name)

    def attached(self, name: str) -> int:
        """Files in which it is attached."""
        return self._sites.attached(name)

    def spans(self, name: str) -> Sequence[Span]:
        """Where its code lies."""
        return self._sites.spans(name)

    def trap_codes(self, name: str) -> Sequence[bytes]:
        """The first bytes of each instruction at which it is or was attached."""
        return self._sites.trap_codes(name)

    def _turns(self, process: Process) -> Turns:
        """Of the threads that called."""
        return turns(process, self._look.callers.get(process.pid, ()))

    def _read(self) -> Totals:
        self._look = self._totals.look()
        for each in self._look.calls:
            if each.process is None:
                self._unowned.append(each)
                continue
            key = each.name, each.process
            vector = to_vector(each.total)
            self._raw[key] = self._raw[key] + vector if key in self._raw else vector
            self._hits[key] = self._hits.get(key, 0) + each.total.hits
            self._last[key] = each.total.last
        return dict(self._raw)

    def _tell(self, key: Key) -> Iterator[Calls]:
        values = self._raw[key]
        if self.governor.is_estimated(key):
            estimate = self.governor.estimate(key, values, CALLS)
            values, self._bounds[key] = estimate.values, estimate.bound
        whole = np.floor(values + 0.5)
        told = self._told.get(key)
        delta = whole if told is None else whole - told
        # None: it is as it was. Only its last value may be another.
        hits = self._hits.pop(key, None)
        if hits is not None or delta.any():
            self._told[key] = whole
            # Not an int64: the sum of an argument that was negative is near 2^64.
            total = to_total([int(each) for each in delta.tolist()], hits or 0, self._last[key])
            yield Calls(key[1], key[0], total)

    def _forget(self, process: Process) -> None:
        self.governor.forget(process)
        self._processes.discard(process)
        for table in (self._raw, self._told, self._hits, self._last):
            for key in [key for key in table if key[1] == process]:
                del table[key]
