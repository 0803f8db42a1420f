"""What is said of a process: which mark its steps are counted from, and its readings. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from engine.readings import Count, Level
from probes.torch_step.thread import (
    DDP,
    MARKER,
    MARKS,
    OPERATIONS,
    OPTIMIZER,
    operation_name,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from engine.readings import Pairs, Process, Reading
    from probes.torch_step.accounts import Interval
    from probes.torch_step.period import Period
    from probes.torch_step.thread import Nanoseconds, Steps

NANOSECONDS = 1e9
Source: TypeAlias = Literal["auto", "marker", "ddp", "optimizer"]


def wait_labels(operation: str) -> Pairs:
    """The labels of a wait."""
    return ("lib", "torch"), ("op", operation)


STEP_COUNTERS: tuple[tuple[str, Pairs], ...] = (("steps_total", ()),)
# What a process that maps PyTorch starts with 0.
COUNTERS: tuple[tuple[str, Pairs], ...] = (
    *STEP_COUNTERS,
    ("backward_passes_total", ()),
    ("optimizer_steps_total", ()),
    *(("comm_wait_seconds_total", wait_labels(each)) for each in OPERATIONS[:2]),
)


class StepSource:
    """Which mark a process's steps are counted from; one at a time, so that none counts twice.

    `auto`: the most certain that was seen so far, a job's own marker before DDP's backward passes
    before optimizer steps. A more certain one that appears later takes over.
    """

    def __init__(self, chosen: Source = "auto") -> None:
        self._fixed = None if chosen == "auto" else MARKS.index(chosen)
        self._marks: dict[Hashable, int] = {}

    def of(self, who: Hashable, steps: tuple[Steps, ...]) -> int | None:
        """The place in MARKS for what the process did in an interval; None: nothing marked yet."""
        if self._fixed is not None:
            if steps[self._fixed].marks:
                self._marks[who] = self._fixed
            return self._marks.get(who)
        seen = [mark for mark in (MARKER, DDP, OPTIMIZER) if steps[mark].marks]
        if who in self._marks:
            seen.append(self._marks[who])
        if seen:
            self._marks[who] = min(seen)
        return self._marks.get(who)

    def known(self, who: Hashable) -> bool:
        """Whether the process has marked a step."""
        return who in self._marks

    def forget(self, who: Hashable) -> None:
        """The process has gone."""
        self._marks.pop(who, None)


class WaitRatio:
    """The share of an interval that each process waited, and how long a share stands."""

    def __init__(self) -> None:
        self._told: dict[Process, float] = {}

    def of(
        self, process: Process, interval: Interval, length: Nanoseconds, *, seen: bool, stands: bool
    ) -> Iterator[Reading]:
        """The share of this interval if its waits were all `seen`, else, if it `stands`, the last.

        None otherwise: a ratio of 0 would be a claim.
        """
        if seen:
            self._told[process] = ratio(interval.wait_ns, length)
        elif not stands:
            self._told.pop(process, None)
        if process in self._told:
            yield Level("comm_wait_ratio", process, self._told[process])

    def forget(self, process: Process) -> None:
        """The process has gone."""
        self._told.pop(process, None)


def counts(interval: Interval, process: Process | None, source: int | None) -> Iterator[Reading]:
    """Counters; the first carries the weight of every hit. Process None: an owner never seen."""
    if interval.hits:
        passes = float(interval.backwards)
        yield Count("backward_passes_total", process, passes, weight=interval.hits)
    if source is not None and interval.steps[source].marks:
        yield Count("steps_total", process, float(interval.steps[source].marks))
    if interval.steps[OPTIMIZER].marks:
        yield Count("optimizer_steps_total", process, float(interval.steps[OPTIMIZER].marks))
    for operation, waited in zip(OPERATIONS, interval.op_ns, strict=True):
        if waited:
            seconds = waited / NANOSECONDS
            yield Count("comm_wait_seconds_total", process, seconds, wait_labels(operation))


def levels(
    interval: Interval, process: Process, source: int | None, *, waits: bool = True
) -> Iterator[Reading]:
    """Gauges of the steps that were completed in an interval, if one was.

    `waits` False: only steps can be seen, and a ratio of 0 would be a claim.
    """
    if source is None:
        return
    yield Level("step_source", process, 1.0, (("source", MARKS[source]),))
    steps = interval.steps[source]
    if steps.timed:
        yield Level("step_time_seconds", process, steps.span_ns / steps.timed / NANOSECONDS)
        if waits:
            yield Level("step_comm_wait_ratio", process, ratio(steps.wait_ns, steps.span_ns))


def collectives(process: Process | None, operation: int, count: int, *, whole: bool) -> Count:
    """Collectives of one operation that a process issued; not `whole`: not all were seen."""
    labels = (("op", operation_name(operation)),)
    delta = float(count) if whole else 0.0
    return Count("gloo_calls_total", process, delta, labels, weight=count, stream="collectives")


def period_levels(period: Period, process: Process) -> Iterator[Reading]:
    """What the sequence of collectives tells of a process that marks no steps."""
    yield Level("step_period_seconds", process, period.seconds)
    yield Level("step_period_confidence", process, period.confidence)


def ratio(part: int, whole: int) -> float:
    """part/whole within [0, 1]."""
    return min(1.0, part / whole) if whole > 0 else 0.0
