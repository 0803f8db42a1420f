"""Alert state along an axis is what the machine gives, stepped through every time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.alerts.alert import Alert, AlertState
from engine.alerts.machine import AlertContext, Element, step
from engine.alerts.templates import AlertTemplates
from engine.labels import METRIC_NAME, Labels
from engine.promql.value import Vector
from engine.rulegroup import alert_axis
from engine.rulegroup.alert_axis import Along
from engine.rulegroup.alerting import watch
from engine.rulegroup.output import RuleFailure, RuleOutput, SampleColumns
from engine.rulegroup.rows import Part
from engine.rulegroup.state import RuleState
from engine.series import stale_mask
from rules.model import AlertingRule, Expression
from rules.promql.parser import parse
from rules.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.series import Series

SECOND = 1000
OFFSET_MS = 3 * SECOND


def make_context(
    *,
    for_ms: int = 0,
    keep_firing_for_ms: int = 0,
    limit: int = 0,
    writes: bool = True,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> AlertContext:
    source = Source("rules.yaml", "1")
    rule = AlertingRule(
        "A",
        Expression("1", parse(source), source, (0, 1)),
        for_ms,
        keep_firing_for_ms,
        labels or {},
        annotations or {"text": "{{ $labels.x }} is {{ $value }}"},
        Span(0, 1),
    )
    templates = AlertTemplates(rule, deferred=True)
    return AlertContext(rule, templates, "f.yaml", "g", limit, "http://here", writes)


def stepped(
    context: AlertContext, state: RuleState, parts: Sequence[Part]
) -> tuple[RuleState, RuleOutput]:
    """The machine at each time, one after another, with nothing left out."""
    output, alerts, columns = RuleOutput(), state.alerts, SampleColumns(state.series)
    for part in parts:
        output.evaluations += len(part.times_ms)
        for index, time_ms in enumerate(part.times_ms.tolist()):
            if part.rows is None:
                output.failures.append(RuleFailure("A", time_ms, part.error, part.place))
                continue
            rows = part.rows
            there = np.flatnonzero(rows.present[:, index]).tolist()
            elements = [Element(rows.labels[row], float(rows.values[row, index])) for row in there]
            done = step(context, alerts, time_ms, elements)
            if done.error:
                output.cleared += [
                    own
                    for own in alerts.values()
                    if own.state is AlertState.FIRING and own.labels not in done.alerts
                ]
                output.failures.append(RuleFailure("A", time_ms, done.error))
            else:
                resolved = [own for own in done.transitions if own.state is AlertState.RESOLVED]
                output.transitions += resolved
                columns.write(time_ms - OFFSET_MS, done.samples)
            alerts = done.alerts
    output.series = columns.series()
    return RuleState(alerts, columns.present), output


def told(context: AlertContext, alerts: Sequence[Alert]) -> list[Alert]:
    return [context.templates.settled(own) for own in alerts]


def written(series: Sequence[Series]) -> list[tuple[str, list[int], list[float | str]]]:
    return [
        (
            str(own.labels),
            own.timestamps_ms.tolist(),
            [
                "stale" if gone else value
                for gone, value in zip(stale_mask(own.values), own.values.tolist(), strict=True)
            ],
        )
        for own in series
    ]


def assert_same(
    context: AlertContext,
    found: tuple[RuleState, RuleOutput],
    expected: tuple[RuleState, RuleOutput],
) -> None:
    (state, output), (other, wanted) = found, expected
    assert told(context, output.transitions) == told(context, wanted.transitions)
    assert sorted(told(context, output.cleared), key=lambda own: own.labels) == sorted(
        told(context, wanted.cleared), key=lambda own: own.labels
    )
    assert output.failures == wanted.failures
    assert output.evaluations == wanted.evaluations
    assert written(output.series) == written(wanted.series)
    assert state.series == other.series
    assert {key: context.templates.settled(own) for key, own in state.alerts.items()} == {
        key: context.templates.settled(own) for key, own in other.alerts.items()
    }


ROWS = [
    Labels({METRIC_NAME: "m", "x": "a"}),
    Labels({METRIC_NAME: "m", "x": "b"}),
    Labels({METRIC_NAME: "other", "x": "a"}),  # makes the first one's alert
    Labels({"x": "c"}),
]
TEXTS = [{}, {"tier": "2"}, {"who": "{{ $labels.x }}!"}, {"how": "{{ printf `%.0f` $value }}"}]


@st.composite
def parts(draw: st.DrawFn, start_ms: int, steps: int) -> list[Part]:
    """A rule's results over times that need not be evenly spaced, in parts, some of them failed."""
    gaps = draw(st.lists(st.sampled_from([10, 10, 10, 30, 700]), min_size=steps, max_size=steps))
    times = start_ms + np.cumsum(np.array(gaps, dtype=np.int64)) * SECOND
    rows = draw(st.lists(st.sampled_from(range(len(ROWS))), unique=True, max_size=len(ROWS)))
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    # Runs rather than noise, so that alerts live long enough to do something.
    flips = random.random((len(rows), steps)) < draw(st.sampled_from([0.05, 0.3, 0.6]))
    present = np.logical_xor.accumulate(flips, axis=1) if rows else flips
    values = random.integers(0, 3, present.shape).astype(np.float64)
    cuts = sorted(draw(st.sets(st.integers(1, steps), max_size=2)) | {0, steps})
    found = []
    for low, high in pairwise(cuts):
        vector = Vector(tuple(ROWS[row] for row in rows), values[:, low:high], present[:, low:high])
        found.append(Part(times[low:high], vector))
        if high < steps and draw(st.booleans()):
            found.append(Part(times[high - 1 : high] + 1, None, "broken", "f.yaml:1:1"))
    return found


@settings(max_examples=100, deadline=None)
@given(
    st.data(),
    st.sampled_from([0, 5, 10, 20, 60]),
    st.sampled_from([0, 5, 20, 60]),
    st.sampled_from([0, 0, 1, 2]),
    st.booleans(),
    st.sampled_from(TEXTS),
)
def test_an_axis_gives_what_every_single_step_gives(
    data: st.DataObject, for_: int, keep: int, limit: int, writes: bool, labels: dict[str, str]
) -> None:
    context = make_context(
        for_ms=for_ms(for_),
        keep_firing_for_ms=for_ms(keep),
        limit=limit,
        writes=writes,
        labels=labels,
    )
    found = expected = RuleState()
    start_ms = 1_700_000_000_000
    for _ in range(2):  # the second time from what the first one left
        own = data.draw(parts(start_ms, data.draw(st.integers(1, 40))))
        start_ms = int(own[-1].times_ms[-1])
        done = watch(context, OFFSET_MS, found, own)
        wanted = stepped(context, expected, own)
        steps = [own for own in done[1].transitions if own.state is AlertState.RESOLVED]
        done[1].transitions[:] = steps
        assert_same(context, done, wanted)
        found, expected = done[0], wanted[0]


def for_ms(seconds: int) -> int:
    return seconds * SECOND


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_a_limit_clears_and_begins_anew_however_far_it_looks_ahead(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_axis, "_LIMITED_STEPS", chunk)
    context = make_context(for_ms=10 * SECOND, keep_firing_for_ms=20 * SECOND, limit=1)
    times = np.arange(1, 13, dtype=np.int64) * 10 * SECOND
    present = np.array(
        [[0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0]], dtype=np.bool_
    )
    rows = Vector((ROWS[0], ROWS[1]), np.where(present, 2.0, 0.0), present)
    part = Part(times, rows)
    found = watch(context, OFFSET_MS, RuleState(), [part])
    assert_same(context, found, stepped(context, RuleState(), [part]))
    assert len(found[1].cleared) == 2
    assert found[1].failures[0].message == "exceeded limit of 1 with 2 alerts"


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("plain", True),
        ("{{ $labels.x }}", True),
        ("{{ .Labels.x }} and {{ $externalLabels.y }}", True),
        ("{{ $value }}", False),
        ('"{{ $value }}"', False),
        ("{{ .Value }}", False),
        ("{{ . }}", False),
        ("{{ with $ }}{{ .ExternalURL }}{{ end }}", False),
        ('{{ with query "up" }}{{ . | first }}{{ end }}', False),
        ("{{ nonsense }}", False),
    ],
)
def test_labels_that_may_depend_on_the_moment_are_worked_out_at_each(
    text: str, constant: bool
) -> None:
    context = make_context(labels={"how": text})
    rows = Vector((ROWS[0],), np.ones((1, 2)), np.ones((1, 2), dtype=np.bool_))
    times = np.array([1, 2], dtype=np.int64)
    assert (Along.of(context, rows, times, {}) is not None) == constant
    assert context.templates.errors_total == 0


def test_nobody_reads_annotations_of_what_is_passed_over() -> None:
    context = make_context(annotations={"text": "{{ nonsense }}"})
    present = np.tile(np.array([True, False]), (1, 500))
    rows = Vector((ROWS[0],), np.where(present, 1.0, 0.0), present)
    part = Part(np.arange(1000, dtype=np.int64) * SECOND, rows)
    _, output = watch(context, 0, RuleState(), [part])
    assert len(output.transitions) == 500
    assert context.templates.errors_total == 0
    first = context.templates.settled(replace(output.transitions[0]))
    assert "error" in first.annotations["text"]
