"""The alert state machine along an axis: only where something changes is anything looked at.

An expression holds in runs of steps. Run by run, on arrays of all runs of all alerts, the rules of
`engine.alerts.machine` say when an alert fires, how long it is kept firing, and when it resolves;
Python objects are made only of alerts that resolved and of those that are left at the end. A test
holds it equal to the machine, which stays the definition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from engine.alerts.alert import Alert, AlertState
from engine.alerts.machine import RESOLVED_RETENTION_MS
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from engine.alerts.machine import AlertContext, AlertTable
    from engine.rulegroup.presence import Positions, Presence
    from engine.series import Int64Array

_NO_OLD = -1
_NEVER = np.iinfo(np.int64).max // 2


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """When alerts were active, in steps: pending in start <= step < fire, firing in fire <= step <
    end. Sorted by alert, then by start.
    """  # noqa: D205 - one sentence

    alert: Positions
    start: Positions
    fire: Positions
    end: Positions
    active_ms: Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """Steps in which an alert's expression held without a break: start <= step < end.

    `old`: the alert that goes on in it, as a number, _NO_OLD where it is a new one. A firing alert
    whose expression does not hold at the first step goes on in an empty run there.
    """

    alert: Positions
    start: Positions
    end: Positions
    old: Positions


class Stretch:
    """All alerts of a rule over consecutive steps, from the table that there was before them."""

    def __init__(
        self,
        context: AlertContext,
        presence: Presence,
        times_ms: Int64Array,
        first: int,
        table: AlertTable,
    ) -> None:
        """`times_ms`: of these steps, which are the presence's from `first` on."""
        self._context, self._presence, self._first = context, presence, first
        self._times = times_ms
        self._there = presence.there[:, first : first + times_ms.size]
        self._numbers = {labels: number for number, labels in enumerate(presence.labels)}
        self._table = table
        self._olds = [alert for alert in table.values() if alert.state is not AlertState.RESOLVED]
        self._runs = self._find_runs()
        self._follow()

    def active(self) -> Int64Array:
        """How many alerts are pending or firing after each step."""
        change = np.zeros(self._times.size + 1, dtype=np.int64)
        for spans in (self._fired, self._pending):
            np.add.at(change, spans.start, 1)
            np.subtract.at(change, spans.end, 1)
        return np.cumsum(change)[:-1]

    def spans(self) -> Spans:
        """When which alert was active, in the presence's steps."""
        fired, waited = self._fired, self._pending
        alert = np.append(fired.alert, waited.alert)
        start = np.append(fired.start, waited.start)
        fire = np.append(fired.fire, waited.fire) + self._first
        end = np.append(fired.end, waited.end) + self._first
        active_ms = np.append(fired.active_ms, waited.active_ms)
        order = np.lexsort((start, alert))
        start += self._first
        return Spans(alert[order], start[order], fire[order], end[order], active_ms[order])

    def _find_runs(self) -> _Runs:
        """Every run, by alert and time."""
        there = np.zeros((self._there.shape[0], self._there.shape[1] + 2), dtype=np.int8)
        there[:, 1:-1] = self._there
        change = np.diff(there, axis=1)
        alert, start = np.nonzero(change > 0)
        _, end = np.nonzero(change < 0)
        old = np.full(alert.size, _NO_OLD)
        kept = []
        for number, one in enumerate(self._olds):
            own = self._numbers[one.labels]
            if self._there[own, 0]:
                old[np.searchsorted(alert, own)] = number
            elif one.state is AlertState.FIRING:
                kept.append((own, number))
        if kept:
            owners, numbers = np.array(kept).T
            nothing = np.zeros(owners.size, dtype=start.dtype)
            alert, start = np.append(owners, alert), np.append(nothing, start)
            end, old = np.append(nothing, end), np.append(numbers, old)
            order = np.argsort(alert, kind="stable")
            alert, start, end, old = alert[order], start[order], end[order], old[order]
        return _Runs(alert, start, end, old)

    def _follow(self) -> None:
        """Tell runs in which an alert fires from those in which it only waits."""
        runs, times, rule = self._runs, self._times, self._context.rule
        count = times.size
        active_ms = times[runs.start]
        old = [self._olds[number] for number in runs.old.tolist() if number != _NO_OLD]
        goes_on = runs.old != _NO_OLD
        active_ms[goes_on] = [one.active_at_ms for one in old]
        fire = np.searchsorted(times, active_ms + max(rule.for_ms, 0))
        fire = np.maximum(fire, runs.start)
        was_firing = goes_on.copy()
        was_firing[goes_on] = [one.state is AlertState.FIRING for one in old]
        fire[was_firing] = runs.start[was_firing]
        fires = (fire < runs.end) | was_firing
        # From when on it is kept firing after its run, and the step at which that is over.
        since_ms = np.append(times, _NEVER)[runs.end]
        for run in np.flatnonzero(was_firing & (runs.end == 0)).tolist():
            since = self._olds[runs.old[run]].keep_firing_since_ms
            since_ms[run] = since_ms[run] if since is None else since
        resolve = np.searchsorted(times, since_ms + max(rule.keep_firing_for_ms, 0))
        # Runs in a row of which each begins before the one ahead of it would have resolved.
        linked = np.zeros(runs.alert.size, dtype=np.bool_)
        linked[1:] = (runs.alert[1:] == runs.alert[:-1]) & (resolve[:-1] >= runs.start[1:])
        heads = np.flatnonzero(~linked)
        chain = np.cumsum(~linked) - 1
        numbers = np.arange(runs.alert.size)
        none = runs.alert.size
        first = np.minimum.reduceat(np.where(fires, numbers, none), heads) if none else numbers
        last = np.append(heads[1:], none) - 1
        chains = np.flatnonzero(first < none)
        self._head, self._tail = first[chains], last[chains]
        self._since_ms = since_ms
        self._fired = Spans(
            runs.alert[self._head],
            runs.start[self._head],
            fire[self._head],
            resolve[self._tail],
            active_ms[self._head],
        )
        waits = numbers < first[chain] if none else linked
        self._pending = Spans(
            runs.alert[waits], runs.start[waits], runs.end[waits], runs.end[waits], active_ms[waits]
        )
        self._waiting = np.flatnonzero(waits & (runs.end == count))

    def resolved(self) -> list[Alert]:
        """Alerts that resolved, by time and labels."""
        found = np.flatnonzero(self._fired.end < self._times.size)
        rank = np.empty(len(self._numbers), dtype=np.int64)
        rank[[self._numbers[labels] for labels in sorted(self._numbers)]] = np.arange(rank.size)
        order = np.lexsort((rank[self._fired.alert[found]], self._fired.end[found]))
        self._made = {number: self._fired_alert(number) for number in found[order].tolist()}
        return list(self._made.values())

    def table(self) -> AlertTable:
        """Every alert as it stands after the last step; `resolved` has to be called before."""
        runs, last_ms = self._runs, int(self._times[-1])
        found = {}
        begun = set(runs.alert.tolist())
        for labels, one in self._table.items():
            over = one.state is AlertState.RESOLVED and self._numbers[labels] not in begun
            if over and not self._is_forgotten(one, last_ms):
                found[labels] = one
        final = np.append(runs.alert[1:] != runs.alert[:-1], [True])[: runs.alert.size]
        for number in np.flatnonzero(final[self._tail]).tolist():
            one = self._made.get(number) or self._fired_alert(number)
            if not self._is_forgotten(one, last_ms):
                found[one.labels] = one
        for run in self._waiting.tolist():
            one = self._held(
                run,
                int(runs.end[run]) - 1,
                state=AlertState.PENDING,
                fired_at_ms=None,
                last_evaluation_ms=last_ms,
            )
            found[one.labels] = one
        return found

    @staticmethod
    def _is_forgotten(alert: Alert, now_ms: int) -> bool:
        over_ms = alert.resolved_at_ms
        return over_ms is not None and now_ms - over_ms > RESOLVED_RETENTION_MS

    def _fired_alert(self, number: int) -> Alert:
        """An alert that fired, as it stands after the step at which it resolves, or the last."""
        head, tail = int(self._head[number]), int(self._tail[number])
        held, end = int(self._runs.end[tail]), int(self._fired.end[number])
        old = int(self._runs.old[head])
        before = None if old == _NO_OLD else self._olds[old]
        changes: dict[str, Any] = {"state": AlertState.FIRING}
        if before is not None and before.state is AlertState.FIRING:
            changes["fired_at_ms"] = before.fired_at_ms
        else:
            changes["fired_at_ms"] = int(self._times[self._fired.fire[number]])
        if end < self._times.size:
            changes["state"] = AlertState.RESOLVED
            changes["resolved_at_ms"] = int(self._times[end])
        if end:
            changes["last_evaluation_ms"] = int(self._times[end - 1])
            since_ms = int(self._since_ms[tail]) if end > held else None
            changes["keep_firing_since_ms"] = since_ms
        if held == 0 and before is not None:
            # Its expression has not held at all: what made it is what made it before.
            return replace(before, **changes)
        return self._held(head, held - 1, **changes)

    def _held(self, run: int, step: int, **changes: Any) -> Alert:
        """The alert that a run begins or goes on with, with what made it at a step."""
        context, number = self._context, int(self._runs.alert[run])
        element = self._presence.element(number, self._first + step)
        changes["annotations"] = context.templates.annotations(element)
        changes["value"] = element.value
        old = int(self._runs.old[run])
        if old != _NO_OLD:
            return replace(self._olds[old], **{"keep_firing_since_ms": None, **changes})
        return Alert(
            labels=self._presence.labels[number],
            active_at_ms=int(self._times[self._runs.start[run]]),
            generator_url=context.generator_url,
            rule_file=context.file,
            group=context.group,
            **changes,
        )
