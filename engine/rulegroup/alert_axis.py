"""An alerting rule along an axis: where it fails, what its limit clears, the samples it writes."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from engine.alerts.alert import AlertState
from engine.alerts.machine import alerts_labels, for_state_labels, over_limit
from engine.rulegroup.alert_runs import Stretch
from engine.rulegroup.output import RuleFailure
from engine.rulegroup.presence import Presence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.alerts.machine import AlertContext, AlertTable
    from engine.labels import Labels
    from engine.promql.value import Vector
    from engine.rulegroup.output import RuleOutput, SampleColumns
    from engine.series import BoolArray, Float64Array, Int64Array

# A limit that is exceeded begins everything anew, so that what lies ahead was looked at in vain.
_LIMITED_STEPS = 256
_PENDING, _FIRING = 1, 2


class Along:
    """One part of an axis; made by `of`."""

    def __init__(
        self, context: AlertContext, presence: Presence, times_ms: Int64Array, alerts: AlertTable
    ) -> None:
        self._context, self._presence, self._alerts = context, presence, alerts
        self._times = times_ms[presence.good]
        self._failures = {
            int(times_ms[step]): text for step, text in sorted(presence.twice.items())
        }
        self._stretches: list[Stretch] = []
        self._good = np.ones(self._times.size, dtype=np.bool_)

    @classmethod
    def of(
        cls, context: AlertContext, rows: Vector, times_ms: Int64Array, alerts: AlertTable
    ) -> Along | None:
        """None where every time has to be looked at: where templates depend on the moment."""
        if not context.templates.is_deferred:
            return None
        labels = context.templates.constant_labels(rows.labels)
        if labels is None:
            return None
        return cls(context, Presence.of(rows, labels, alerts), times_ms, alerts)

    def follow(self, columns: SampleColumns, offset_ms: int, output: RuleOutput) -> AlertTable:
        """The alerts after the last time."""
        if self._context.limit:
            self._follow_limited(output)
        elif self._times.size:
            self._take(self._stretch(0, self._times.size), output)
        name = self._context.rule.name
        output.failures += [
            RuleFailure(name, time_ms, text) for time_ms, text in sorted(self._failures.items())
        ]
        stamps_ms = (self._times - offset_ms)[self._good]
        if stamps_ms.size:
            columns.write_along(stamps_ms, self._samples() if self._context.writes else ())
        return self._alerts

    def _stretch(self, first: int, end: int) -> Stretch:
        times_ms = self._times[first:end]
        return Stretch(self._context, self._presence, times_ms, first, self._alerts)

    def _take(self, stretch: Stretch, output: RuleOutput) -> None:
        output.transitions += stretch.resolved()
        self._alerts = stretch.table()
        self._stretches.append(stretch)

    def _follow_limited(self, output: RuleOutput) -> None:
        limit, first, count = self._context.limit, 0, self._times.size
        there = self._presence.there.sum(axis=0)
        while first < count:
            stretch = self._stretch(first, min(first + _LIMITED_STEPS, count))
            active = stretch.active()
            over = np.flatnonzero(active > limit)
            if not over.size:
                self._take(stretch, output)
                first += active.size
                continue
            bad = first + int(over[0])
            if bad > first:
                self._take(self._stretch(first, bad), output)
            self._fail(bad, int(active[over[0]]))
            output.cleared += [
                alert for alert in self._alerts.values() if alert.state is AlertState.FIRING
            ]
            self._alerts = {}
            first = bad + 1
            # With an empty table, all that is there is new.
            while first < count and there[first] > limit:
                self._fail(first, int(there[first]))
                first += 1

    def _fail(self, step: int, active: int) -> None:
        self._good[step] = False
        self._failures[int(self._times[step])] = over_limit(self._context.limit, active)

    def _samples(self) -> Iterator[tuple[Labels, BoolArray, Float64Array]]:
        spans = [
            span
            for stretch in self._stretches
            for own in [stretch.spans()]
            for span in zip(
                own.alert.tolist(),
                own.start.tolist(),
                own.fire.tolist(),
                own.end.tolist(),
                own.active_ms.tolist(),
                strict=True,
            )
        ]
        spans.sort(key=lambda span: span[0])
        size = self._times.size
        for alert, own in groupby(spans, key=lambda span: span[0]):
            state = np.zeros(size, dtype=np.int8)
            since = np.zeros(size)
            for _, start, fire, end, active_ms in own:
                state[start:fire] = _PENDING
                state[fire:end] = _FIRING
                since[start:end] = active_ms // 1000  # Prometheus stores whole seconds
            labels = self._context.templates.written(self._presence.labels[alert])
            ones = np.ones(int(self._good.sum()))
            state, since = state[self._good], since[self._good]
            for name, number in ((AlertState.PENDING, _PENDING), (AlertState.FIRING, _FIRING)):
                there = state == number
                if there.any():
                    yield alerts_labels(labels, name.value), there, ones
            active = state > 0
            if active.any():
                yield for_state_labels(labels), active, since
