"""A dry-run: rules over recorded data, with the outcome that the live agent had or would have had.

The same rule runners as live, fed whole axes of times where the rules allow it. Time is cut into
chunks so that memory does not grow with the length of the recording.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from engine.alerts.alert import AlertState
from engine.baselines.of_data import folds_of
from engine.dataset.dataset import MemoryDataset
from engine.evidence import EvidenceCollector
from engine.pipeline.ahead import Ahead, Job
from engine.pipeline.timeline import EvaluationLog, recorded_group, timeline
from engine.promql.tall import shape_of
from engine.rulegroup.common_parts import CommonParts
from engine.rulegroup.dependencies import components, read_by_others, read_no_others
from engine.rulegroup.options import GroupOptions
from engine.rulegroup.overlay import Overlay, Remembered
from engine.rulegroup.rows import axis_of
from engine.rulegroup.runner import RuleRunner, settle_departed
from engine.rulegroup.state import RuleState
from engine.timing import TimedQueryable, Timing, timed
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.alerts.alert import Alert
    from engine.baselines.folds import Folds
    from engine.dataset import Dataset
    from engine.pipeline.timeline import Timeline
    from engine.rulegroup.dependencies import Component
    from engine.rulegroup.output import RuleOutput
    from engine.series import Int64Array, Queryable
    from rules.model import Group, Rule, RuleFile

# Long enough that windows of an hour cost little at each cut, short enough that the results of a
# thousand series are tens of megabytes.
CHUNK_MS = 8 * 3_600_000


@dataclass(frozen=True, slots=True)
class FailedRule:
    """A rule that failed `count` times, for the first time at `first_ms`."""

    file: str
    group: str
    rule: str
    message: str
    first_ms: int
    place: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """`alerts`: every one that fired, by time and labels, each as it stood in the end.

    `evaluations` counts rules times evaluation times. `series`: of the data.
    """

    start_ms: int
    end_ms: int
    series: int
    evaluations: int
    alerts: tuple[Alert, ...]
    left: Left = field(repr=False, compare=False)
    failures: tuple[FailedRule, ...] = ()
    notices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    template_errors: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Left:
    """What is left to be asked: the groups, each with its interval, and the data that they read.

    `data` hold what rules wrote, and `folds` what they learnt.
    """

    groups: tuple[Group, ...]
    data: Queryable
    options: GroupOptions
    folds: Folds


def replay(
    files: Sequence[RuleFile],
    dataset: Dataset,
    start_ms: int | None = None,
    end_ms: int | None = None,
    options: GroupOptions | None = None,
    *,
    interval_ms: int | None = None,
    fill: bool = False,
    progress: Callable[[float], None] | None = None,
    clock: Timing | None = None,
) -> ReplayResult:
    """Evaluate every rule at every time in [start, end].

    By default that is all of the data, and of a recording the evaluations after its last sample.

    Of a recording only the times are evaluated that were evaluated live; `fill` evaluates
    the skipped ones too. `interval_ms` is the interval of groups that name none; without it a
    recording's own holds, else that of `options`. `progress` hears the share that is done, 0 to 1;
    `clock` is told what is evaluation and what is reading.

    Raises DataError for data that turn out to be broken.
    """
    first = dataset.start_ms if start_ms is None else start_ms
    last = _end_ms(dataset) if end_ms is None else end_ms
    options = options or GroupOptions()
    if interval_ms is not None:
        files = [_with_interval(file, interval_ms) for file in files]
        options = replace(options, interval_ms=interval_ms)
    run = _Run(files, dataset, first, last, options, fill=fill, clock=clock)
    edges = run.edges()
    with run.looking_ahead(edges):
        for index, (from_ms, to_ms) in enumerate(pairwise(edges)):
            for share in run.chunk(from_ms, to_ms):
                if progress is not None:
                    progress((index + share) / (len(edges) - 1))
    return run.result()


@dataclass(slots=True)
class _Planned:
    """A rule with when it runs; `is_free`: it reads nothing that any rule writes.

    Nor does it have a memory, which goes through time in order.
    """

    runner: RuleRunner
    timeline: Timeline
    is_free: bool = False


def _runner(rule: Rule, group: Group, options: GroupOptions, *, is_read: bool) -> RuleRunner:
    return RuleRunner(rule, group, options, RuleState(), is_replay=True, is_read=is_read)


@dataclass(slots=True)
class _History:
    """What has happened so far."""

    alerts: list[Alert] = field(default_factory=list)
    failures: dict[tuple[str, str, str, str], FailedRule] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)
    evaluations: int = 0


class _Run:
    """One replay in progress."""

    def __init__(
        self,
        files: Sequence[RuleFile],
        dataset: Dataset,
        start_ms: int,
        end_ms: int,
        options: GroupOptions,
        *,
        fill: bool,
        clock: Timing | None = None,
    ) -> None:
        self._dataset = dataset
        self._clock = clock = clock or Timing()
        self._ahead = Ahead(options.evaluate)
        folds = folds_of(dataset, options.baselines)
        options = replace(options, engine=replace(options.engine, folds=folds))
        self._engine = options.engine
        options = replace(options, evaluate=timed(self._ahead, clock))
        self._start_ms, self._end_ms = start_ms, end_ms
        recorded = dataset if isinstance(dataset, EvaluationLog) else None
        log = None if fill else recorded
        groups = [_as_recorded(group, recorded) for file in files for group in file.groups]
        rules = [rule for group in groups for rule in group.rules]
        is_read = iter(read_by_others(rules))
        is_free = iter(read_no_others(rules))
        self._planned: list[_Planned] = []
        for group in groups:
            when = timeline(group, options, start_ms, end_ms, log)
            self._planned += [
                _Planned(
                    _runner(rule, group, options, is_read=next(is_read)),
                    when,
                    next(is_free) and not any(shape_of(e.tree).remembers for e in rule.expressions),
                )
                for rule in group.rules
            ]
        offsets = [planned.runner.offset_ms for planned in self._planned]
        self._components = components(list(zip(rules, offsets, strict=True)))
        self._common = CommonParts(rules)
        for component in self._components:
            # Step by step there is less to gain than to look up.
            for index in () if component.stepwise else component.members:
                runner = self._planned[index].runner
                runner.options = self._common.into(runner.options)
        base = TimedQueryable(dataset.with_derived(), clock)
        self._overlay = Overlay(base, rules, start_ms - max(offsets, default=0))
        self._history = _History()
        timed_groups = (replace(own, interval_ms=options.interval_of(own)) for own in groups)
        self._left = Left(tuple(timed_groups), self._overlay, options, folds)

    def edges(self) -> list[int]:
        """Where time is cut: each chunk's start, and the end."""
        cuts = set(range(self._start_ms, self._end_ms + 1, CHUNK_MS))
        for planned in self._planned:
            cuts |= planned.timeline.resets_ms
        return [*sorted(cuts), self._end_ms + 1]

    def chunk(self, from_ms: int, to_ms: int) -> Iterator[float]:
        """All rules over from <= t < to; yields the share of them that is done."""
        self._common.clear()
        for planned in self._planned:
            self._reset(planned, from_ms)
        for done, component in enumerate(self._components, start=1):
            if component.stepwise:
                self._step_by_step(component, from_ms, to_ms)
            else:
                self._at_once(self._planned[component.members[0]], from_ms, to_ms)
            yield done / len(self._components)

    @contextmanager
    def looking_ahead(self, edges: Sequence[int]) -> Iterator[None]:
        """Let forks evaluate rules that read nothing but data, if the data are in memory."""
        workers, cells = self._engine.workers, 0
        # A fork has none of the threads that read files.
        if workers < 2 or not isinstance(self._dataset, MemoryDataset):
            yield
            return
        free = [
            self._planned[component.members[0]]
            for component in self._components
            if not component.stepwise and self._planned[component.members[0]].is_free
        ]
        jobs = []
        for from_ms, to_ms in pairwise(edges):
            for planned in free:
                times_ms = planned.timeline.between(from_ms, to_ms)
                if not len(times_ms):
                    continue
                runner = planned.runner
                axis = axis_of(times_ms, runner.offset_ms)
                jobs += [Job(own.tree, axis) for own in runner.rule.expressions]
                cells += len(times_ms) * self._dataset.series_count
        if cells < self._engine.fork_cells:
            yield
            return
        engine = replace(self._engine, shared=self._common.sharing)
        with self._ahead.of(jobs, self._overlay, engine, workers):
            yield

    def result(self) -> ReplayResult:
        """Everything, with what is still firing."""
        for planned in self._planned:
            firing = planned.runner.state.alerts.values()
            self._keep(planned, [own for own in firing if own.state is AlertState.FIRING])
        contexts = [planned.runner.context for planned in self._planned]
        with self._clock.reading():
            series = self._dataset.series_count
        return ReplayResult(
            start_ms=self._start_ms,
            end_ms=self._end_ms,
            series=series,
            evaluations=self._history.evaluations,
            alerts=tuple(
                sorted(self._history.alerts, key=lambda own: (own.fired_at_ms or 0, own.labels))
            ),
            failures=tuple(self._history.failures.values()),
            notices=tuple(self._dataset.notices),
            warnings=tuple(self._history.warnings),
            template_errors=sum(
                context.templates.errors_total for context in contexts if context is not None
            ),
            left=self._left,
        )

    def _reset(self, planned: _Planned, from_ms: int) -> None:
        """Begin a rule's state anew where the agent did, too long an outage behind it."""
        if from_ms not in planned.timeline.resets_ms:
            return
        gone = planned.runner.state.alerts.values()
        departed = [own for own in gone if own.state is AlertState.FIRING]
        self._keep(planned, settle_departed(departed, from_ms))
        planned.runner.state = RuleState()

    def _at_once(self, planned: _Planned, from_ms: int, to_ms: int) -> None:
        self._evaluate(planned, planned.timeline.between(from_ms, to_ms))

    def _step_by_step(self, component: Component, from_ms: int, to_ms: int) -> None:
        members = [self._planned[index] for index in component.members]
        times = [set(own.timeline.between(from_ms, to_ms).tolist()) for own in members]
        self._overlay.fetch_until(to_ms)
        for time_ms in sorted(set().union(*times)):
            now = np.array([time_ms], dtype=np.int64)
            for planned, own in zip(members, times, strict=True):
                if time_ms in own:
                    self._evaluate(planned, now)
        self._overlay.fetch_until(None)

    def _evaluate(self, planned: _Planned, times_ms: Int64Array) -> None:
        output = planned.runner.run(times_ms, self._overlay)
        if planned.runner.is_read:
            self._overlay.append(output.series)
            self._common.written(planned.runner.rule)
        resolved = [own for own in output.transitions if own.state is AlertState.RESOLVED]
        self._keep(planned, resolved + output.cleared)
        self._count(planned.runner.group, output)

    def _keep(self, planned: _Planned, alerts: Sequence[Alert]) -> None:
        """Alerts that are over, or as they stand at the end, with their last evidence."""
        context = planned.runner.context
        if not alerts or context is None:
            return
        collector = EvidenceCollector(planned.runner.rule)
        last_ms = max(alert.last_evaluation_ms or 0 for alert in alerts)
        data = Remembered(self._overlay, min(alert.active_at_ms for alert in alerts), last_ms)
        for alert in map(context.templates.settled, alerts):
            found = collector.collect([alert], data, self._dataset).get(alert.labels, ())
            # Most have none, and a copy costs as much as the rest.
            self._history.alerts.append(replace(alert, evidence=found) if found else alert)

    def _count(self, group: Group, output: RuleOutput) -> None:
        history = self._history
        history.evaluations += output.evaluations
        history.warnings.update(output.warnings)
        for failure in output.failures:
            key = (group.file, group.name, failure.rule, failure.message)
            before = history.failures.get(key)
            history.failures[key] = (
                FailedRule(*key, first_ms=failure.time_ms, place=failure.place)
                if before is None
                else replace(before, count=before.count + 1)
            )


def _end_ms(dataset: Dataset) -> int:
    """The last sample's time, or that of a later evaluation: a group can be due between flushes."""
    if not isinstance(dataset, EvaluationLog):
        return dataset.end_ms
    evaluated = (dataset.slots(*key).evaluated for key in dataset.groups)
    return max([dataset.end_ms, *(int(times[-1]) for times in evaluated if len(times))])


def _with_interval(file: RuleFile, interval_ms: int) -> RuleFile:
    """The file with the interval given to groups that name none."""
    groups = (
        replace(group, interval_ms=interval_ms) if group.interval_ms is None else group
        for group in file.groups
    )
    return replace(file, groups=tuple(groups))


def _as_recorded(group: Group, log: EvaluationLog | None) -> Group:
    """The group with the interval that it had live, if it names none itself."""
    key = recorded_group(group, log) if log is not None and group.interval_ms is None else None
    if log is None or key is None:
        return group
    return replace(group, interval_ms=log.intervals.get(key))
