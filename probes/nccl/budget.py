"""Calls counted within a budget, and what the other hooks may cost.

Collectives that cost too much are watched in slices and their counts scaled up (probes/budget).
A wait that is seen now and then tells nothing, nor does half of a plugin's events: these, and the
results of calls, are watched or they are not. All share one budget, with the other probes too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.readings import Level
from probes.budget.governor import Governor
from probes.nccl import abi
from probes.nccl.functions import CALLS, COMMUNICATORS, RESULT, RESULTS, WAITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.readings import Process, Reading
    from probes.budget.bounds import Floats
    from probes.budget.ledger import Key, Totals
    from probes.budget.settings import BudgetConfig
    from probes.functions.function import Function
    from probes.functions.sites import FunctionSites
    from probes.nccl.plugins import Plugins
    from probes.nccl.records import ProcessRecord
    from probes.sampling.addresses import Span

# Where things are in the vector of an operation.
TRAPS, CALLS_, BYTES, FIRST_CLASS = range(4)
SIZE = FIRST_CLASS + len(abi.SIZE_BOUNDS) + 1
ASK = "ncclCommGetAsyncError"
PLUGIN = "ncclProfiler"
FUNCTION_OF = {op: f"nccl{op}" for op in abi.OPERATIONS}


class _Plugin:
    """A plugin's functions as one, for a governor."""

    name, leave, colder = PLUGIN, "", ()


class Budget:
    """See the module. `closed` is called when waits are no longer watched: what is open ends."""

    def __init__(
        self,
        sites: FunctionSites,
        plugins: Plugins,
        settings: BudgetConfig,
        closed: Callable[[], None],
    ) -> None:
        self._sites = sites
        self._plugins = plugins
        self._closed = closed
        rest = settings.model_copy(update={"ladder": ()})
        asks = [each for each in COMMUNICATORS if each.name == ASK]
        others: list[Function | _Plugin] = [*RESULTS, *WAITS, *asks, _Plugin()]
        self._calls = Governor("nccl", self, CALLS, settings)
        self._rest = Governor("nccl", self, others, rest)
        self._raw: dict[Key, Floats] = {}
        self._told: dict[Key, Floats] = {}
        self._hooks: dict[Key, tuple[float]] = {}
        self._bounds: dict[Key, float] = {}

    @property
    def sees_waits(self) -> bool:
        """Whether some synchronising call is watched all the time."""
        modes = self._rest.modes()
        return any(modes[each.name] == "full" for each in WAITS)

    @property
    def sees_kernels(self) -> bool:
        """Whether plugins are watched all the time."""
        return self._rest.modes()[PLUGIN] == "full"

    def poll(self, read: Callable[[], None]) -> None:
        """Begin and end the slices that are due; `read` adds what was called since."""

        def fresh() -> Totals:
            read()
            return dict(self._raw)

        self._calls.poll(fresh)
        self._rest.poll(lambda: dict(self._hooks))

    def step(self) -> None:
        """Compare cost and budget, once an interval, when all was added."""
        self._bounds.clear()
        self._calls.step(dict(self._raw), processes={process for _, process in self._hooks})
        self._rest.step(dict(self._hooks))

    def add(self, process: Process, op: str, delta: Floats) -> None:
        """An operation was called."""
        key = FUNCTION_OF[op], process
        result = f"{key[0]}{RESULT}", process
        (before,) = self._hooks.get(result, (0.0,))
        # Entry and exit of the result's own.
        self._hooks[result] = (before + 2 * float(delta[CALLS_]),)
        self._raw[key] = self._raw[key] + delta if key in self._raw else delta

    def weigh(self, process: Process, record: ProcessRecord) -> None:
        """How often the other hooks were run into; totals of a process."""
        for function, count in zip(WAITS, record.synchronised, strict=True):
            self._hooks[function.name, process] = (2.0 * count,)
        self._hooks[ASK, process] = (2.0 * record.asked,)
        self._hooks[PLUGIN, process] = (1.5 * record.plugin_calls,)

    def take(self, process: Process) -> Iterator[tuple[str, Floats]]:
        """What each operation of a process is to be told of since the last time."""
        for op, name in FUNCTION_OF.items():
            key = name, process
            values = self._raw.get(key)
            if values is None:
                continue
            if self._calls.is_estimated(key):
                estimate = self._calls.estimate(key, values, CALLS_)
                values, self._bounds[key] = estimate.values, estimate.bound
            whole = np.floor(values + 0.5)
            told = self._told.get(key)
            delta = whole if told is None else whole - told
            if delta.any():
                self._told[key] = whole
                yield op, delta

    def forget(self, process: Process) -> None:
        """A process ended, and the last of it was told."""
        for governor in (self._calls, self._rest):
            governor.forget(process)
        for table in (self._raw, self._told, self._hooks, self._bounds):
            for key in [key for key in table if key[1] == process]:
                del table[key]

    def close(self) -> None:
        """Leave the budget to others."""
        for governor in (self._calls, self._rest):
            governor.close()

    def levels(self) -> Iterator[Reading]:
        """How far off counts may be, and the budget's own metrics."""
        for (name, process), bound in self._bounds.items():
            labels = (("op", name.removeprefix("nccl")),)
            yield Level("nccl_calls_error_bound", process, bound, labels, "sum")
        yield from self._calls.levels()
        yield from self._rest.levels()

    # What a governor does to breakpoints.

    def suspend(self, name: str) -> None:
        """Detach a function everywhere."""
        if name == PLUGIN:
            self._plugins.suspend()
        else:
            self._sites.suspend(name)
        if name == PLUGIN or any(name == each.name for each in WAITS):
            self._closed()

    def resume(self, name: str) -> None:
        """Attach it again."""
        if name == PLUGIN:
            self._plugins.resume()
        else:
            self._sites.resume(name)

    def attached(self, name: str) -> int:
        """Files in which it is attached."""
        return self._plugins.attached if name == PLUGIN else self._sites.attached(name)

    def spans(self, name: str) -> Sequence[Span]:
        """Where its code lies."""
        return [] if name == PLUGIN else self._sites.spans(name)

    def trap_codes(self, name: str) -> Sequence[bytes]:
        """The first bytes of each instruction at which it is attached."""
        return [] if name == PLUGIN else self._sites.trap_codes(name)
