"""What a share of a process is a share of: the CPU time that it used lately."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probes.budget.shares import taken_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import Process


class Weights:
    """CPU seconds and cores by process, as of the last weighing."""

    def __init__(self, used: Callable[[Process], float | None], least_cores: float) -> None:
        self._used = used
        self._least = least_cores
        self._cpu: dict[Process, float | None] = {}
        self._cores: dict[Process, float] = {}

    def weigh(self, processes: set[Process], passed_seconds: float | None) -> None:
        """By process, the cores that a share is a share of; None: nothing was weighed before."""
        before, self._cpu = self._cpu, {each: self._used(each) for each in processes}
        if passed_seconds is None:
            return
        for process, used in self._cpu.items():
            earlier = before.get(process)
            spent = None if used is None or earlier is None else used - earlier
            self._cores[process] = taken_from(spent, passed_seconds, self._least) / passed_seconds
        self._cores = {each: self._cores[each] for each in self._cpu}

    def share(self, process: Process, cores: float) -> float:
        """What so many cores (seconds a second) are of this process."""
        return cores / self._cores.get(process, self._least)
