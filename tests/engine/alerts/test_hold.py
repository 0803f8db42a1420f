from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.alerts.hold import Hold
from engine.alerts.machine import Element, Step, step
from engine.labels import METRIC_NAME, Labels

if TYPE_CHECKING:
    from engine.alerts.machine import AlertContext, AlertTable
    from tests.engine.alerts.conftest import MakeContext

MINUTE = 60_000
JOB = Labels.of(__name__="wait", task_id="a", rank="0")
ALERT = Labels.of(alertname="Stalled", task_id="a", rank="0", tier="1")


def run(context: AlertContext, course: str) -> list[Step]:
    """A minute a letter: `x` the expression holds, `h` only the resolve expression, `.` none."""
    alerts: AlertTable = {}
    steps = []
    for minute, now in enumerate(course):
        elements = [Element(JOB, float(minute))] if now == "x" else []
        hold = Hold.of(context.rule, [JOB] if now in "xh" else [])
        steps.append(step(context, alerts, minute * MINUTE, elements, hold))
        alerts = steps[-1].alerts
    return steps


def states(steps: list[Step]) -> str:
    """`p`ending, `f`iring, `r`esolved or not there."""
    return "".join(
        done.alerts[ALERT].state.value[0] if ALERT in done.alerts else "." for done in steps
    )


@pytest.mark.parametrize(
    ("course", "expected"),
    [
        ("xxhh..", "ffffrr"),  # it goes on firing below the first threshold
        ("x.", "fr"),
        ("hhxh.h", "..ffrr"),  # and does not begin to fire there, neither first nor again
        ("xhxhh.", "fffffr"),
    ],
)
def test_it_keeps_firing_while_the_resolve_expression_holds(
    make_context: MakeContext, course: str, expected: str
) -> None:
    steps = run(make_context(labels={"tier": "1"}), course)
    assert states(steps) == expected
    told = [alert.state.value for done in steps for alert in done.transitions]
    assert told == ["firing", "resolved"]


def test_what_is_pending_is_not_held(make_context: MakeContext) -> None:
    steps = run(make_context(for_ms=2 * MINUTE, labels={"tier": "1"}), "xhxxxh.")
    assert states(steps) == "p.ppffr"


def test_keep_firing_for_counts_from_when_neither_holds(make_context: MakeContext) -> None:
    context = make_context(keep_firing_for_ms=2 * MINUTE, labels={"tier": "1"})
    assert states(run(context, "x.h..h...")) == "ffffffffr"


def test_value_and_annotations_stay_those_of_the_expression(make_context: MakeContext) -> None:
    context = make_context(labels={"tier": "1"}, annotations={"text": "{{ $value }}"})
    held = run(context, "xxhh")[-1].alerts[ALERT]
    assert (held.value, held.annotations) == (1.0, {"text": "1"})
    assert held.last_evaluation_ms == 3 * MINUTE


@pytest.mark.parametrize(
    ("element", "is_held"),
    [
        ({"task_id": "a", "rank": "0"}, True),
        ({METRIC_NAME: "wait", "task_id": "a", "rank": "0"}, True),
        ({"task_id": "a"}, True),  # sum by (task_id): all ranks of the task
        ({}, True),  # sum: all alerts of the rule
        ({"task_id": "b"}, False),
        ({"task_id": "a", "rank": "1"}, False),
        ({"task_id": "a", "gpu": "0"}, False),  # it says more than the alert does
        ({"task_id": "a", "tier": "2"}, True),  # the rule's own label, whatever it is here
        ({"alertname": "Other"}, True),
    ],
)
def test_an_element_holds_the_alerts_that_have_all_of_its_labels(
    make_context: MakeContext, element: dict[str, str], is_held: bool
) -> None:
    rule = make_context(labels={"tier": "1"}).rule
    other = Labels.of(task_id="z", rank="9")
    assert Hold.of(rule, [other, Labels(element)]).covers(ALERT) == is_held
    assert not Hold.of(rule, [other]).covers(ALERT)
