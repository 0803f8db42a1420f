from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.alerts.alert import AlertState
from engine.alerts.machine import Element, Step, step
from engine.labels import Labels

if TYPE_CHECKING:
    from engine.alerts.machine import AlertContext, AlertTable
    from tests.engine.alerts.conftest import MakeContext

MINUTE = 60_000
JOB = Labels.of(__name__="wait", task_id="slurm:7.0")
ALERT = Labels.of(alertname="Stalled", task_id="slurm:7.0")


def run(context: AlertContext, *present: tuple[int, bool]) -> list[Step]:
    """Step through (minute, whether the expression holds)."""
    alerts: AlertTable = {}
    steps = []
    for minute, holds in present:
        elements = [Element(JOB, float(minute))] if holds else []
        steps.append(step(context, alerts, minute * MINUTE, elements))
        alerts = steps[-1].alerts
    return steps


def states(steps: list[Step]) -> list[str]:
    return [done.alerts[ALERT].state.value if ALERT in done.alerts else "-" for done in steps]


def test_an_alert_fires_when_it_was_active_for_exactly_its_for(make_context: MakeContext) -> None:
    steps = run(make_context(for_ms=2 * MINUTE), (1, True), (2, True), (3, True), (4, True))
    assert states(steps) == ["pending", "pending", "firing", "firing"]
    assert [len(done.transitions) for done in steps] == [0, 0, 1, 0]
    fired = steps[2].transitions[0]
    assert (fired.active_at_ms, fired.fired_at_ms) == (1 * MINUTE, 3 * MINUTE)


def test_for_zero_fires_at_once(make_context: MakeContext) -> None:
    assert states(run(make_context(), (1, True))) == ["firing"]


def test_a_pending_alert_that_vanishes_is_forgotten_in_silence(make_context: MakeContext) -> None:
    steps = run(make_context(for_ms=2 * MINUTE), (1, True), (2, False), (3, True), (4, True))
    assert states(steps) == ["pending", "-", "pending", "pending"]
    assert not any(done.transitions for done in steps)
    assert steps[3].alerts[ALERT].active_at_ms == 3 * MINUTE


def test_a_firing_alert_that_vanishes_is_resolved_and_kept_for_fifteen_minutes(
    make_context: MakeContext,
) -> None:
    steps = run(make_context(), (1, True), (2, False), (17, False), (18, False))
    assert states(steps) == ["firing", "resolved", "resolved", "-"]
    resolved = steps[1].transitions[0]
    assert (resolved.fired_at_ms, resolved.resolved_at_ms) == (MINUTE, 2 * MINUTE)
    assert resolved.value == 1.0
    assert resolved.last_evaluation_ms == MINUTE


def test_a_resolved_alert_that_returns_is_a_new_alert(make_context: MakeContext) -> None:
    steps = run(make_context(for_ms=MINUTE), (1, True), (2, True), (3, False), (4, True), (5, True))
    assert states(steps) == ["pending", "firing", "resolved", "pending", "firing"]
    again = steps[4].transitions[0]
    assert (again.active_at_ms, again.fired_at_ms, again.resolved_at_ms) == (
        4 * MINUTE,
        5 * MINUTE,
        None,
    )


def test_keep_firing_for_holds_while_less_than_it_has_passed(make_context: MakeContext) -> None:
    context = make_context(keep_firing_for_ms=2 * MINUTE)
    steps = run(context, (1, True), (2, False), (3, False), (4, False))
    assert states(steps) == ["firing", "firing", "firing", "resolved"]


def test_keep_firing_for_starts_over_when_the_expression_holds_again(
    make_context: MakeContext,
) -> None:
    context = make_context(keep_firing_for_ms=2 * MINUTE)
    steps = run(context, (1, True), (2, False), (3, True), (4, False), (5, False), (6, False))
    assert states(steps) == ["firing"] * 5 + ["resolved"]


def test_keep_firing_for_does_not_hold_a_pending_alert(make_context: MakeContext) -> None:
    context = make_context(for_ms=5 * MINUTE, keep_firing_for_ms=5 * MINUTE)
    assert states(run(context, (1, True), (2, False))) == ["pending", "-"]


def test_value_and_annotations_refresh_at_every_evaluation(make_context: MakeContext) -> None:
    steps = run(make_context(annotations={"now": "{{ $value }}"}), (1, True), (2, True))
    last = steps[1].alerts[ALERT]
    assert (last.value, last.annotations, last.active_at_ms) == (2.0, {"now": "2"}, MINUTE)


def test_a_changed_label_value_is_a_new_alert(make_context: MakeContext) -> None:
    steps = run(make_context(labels={"minute": "{{ $value }}"}), (1, True), (2, True))
    moved = [(alert.labels.get("minute"), alert.state.value) for alert in steps[1].transitions]
    assert moved == [("1", "resolved"), ("2", "firing")]


def test_labels_in_templates_are_the_samples_own_with_its_name(make_context: MakeContext) -> None:
    context = make_context(
        labels={"team": "net"},
        annotations={"text": "{{ $labels.__name__ }}/{{ $labels.task_id }}/{{ $labels.team }}"},
    )
    (alert,) = run(context, (1, True))[0].alerts.values()
    assert alert.annotations == {"text": "wait/slurm:7.0/"}


def test_a_rules_label_overrides_the_samples_and_an_empty_one_removes_it(
    make_context: MakeContext,
) -> None:
    context = make_context(labels={"task_id": "", "rank": "all", "alertname": "Other"})
    done = step(context, {}, 0, [Element(JOB.merged({"rank": "3"}), 1.0)])
    assert list(done.alerts) == [Labels.of(alertname="Stalled", rank="all")]


def test_two_results_with_the_same_labels_fail_the_rule_and_change_nothing(
    make_context: MakeContext,
) -> None:
    context = make_context(labels={"rank": "all"})
    before = step(context, {}, 0, [Element(JOB, 1.0)])
    twice = [Element(JOB.merged({"rank": "0"}), 1.0), Element(JOB.merged({"rank": "1"}), 1.0)]
    done = step(context, before.alerts, MINUTE, twice)
    assert "same labelset after applying alert labels" in done.error
    assert done.alerts is before.alerts
    assert (done.transitions, done.samples) == ((), {})


@pytest.mark.parametrize("for_ms", [0, 10 * MINUTE])
def test_over_the_limit_the_rules_alerts_are_cleared_and_nothing_is_sent(
    make_context: MakeContext, for_ms: int
) -> None:
    context = make_context(limit=1, for_ms=for_ms)
    one = [Element(JOB, 1.0)]
    two = [*one, Element(JOB.merged({"rank": "1"}), 1.0)]
    before = step(context, {}, 0, one)
    assert not before.error
    done = step(context, before.alerts, MINUTE, two)
    assert done.error == "exceeded limit of 1 with 2 alerts"
    assert (done.alerts, done.transitions, done.samples) == ({}, (), {})


@pytest.mark.parametrize(
    "text",
    [
        "{{ nonsense",
        "{{ query `up` }}",
        '{{ define "t" }}{{ template "t" . }}{{ end }}{{ template "t" . }}',
        "{{ range 100000 }}{{ range 100000 }}x{{ end }}{{ end }}",
        '{{ printf "%100000d" 1 }}',
    ],
)
def test_a_template_that_fails_never_loses_its_alert(make_context: MakeContext, text: str) -> None:
    context = make_context(annotations={"text": text, "other": "kept"}, labels={"made": text})
    (alert,) = run(context, (1, True))[0].alerts.values()
    assert alert.annotations["text"].startswith("<error expanding template: ")
    assert alert.labels.get("made").startswith("<error expanding template: ")
    assert alert.annotations["other"] == "kept"
    assert context.templates.errors_total == 2


def test_a_label_that_comes_out_empty_stands_in_alerts_as_it_was_written(
    make_context: MakeContext,
) -> None:
    context = make_context(labels={"team": "{{ $labels.team }}", "tier": ""})
    done = step(context, {}, 0, [Element(JOB, 1.0)])
    (alert,) = done.alerts.values()
    assert "team" not in alert.labels
    assert [labels.get("team") for labels in done.samples] == ["{{ $labels.team }}"] * 2
    assert not any("tier" in labels for labels in done.samples)


def test_the_text_of_a_failed_template_names_the_piece_at_fault(make_context: MakeContext) -> None:
    context = make_context(annotations={"text": "of {{ $labels.task_id.x }}"})
    (alert,) = run(context, (1, True))[0].alerts.values()
    assert alert.annotations["text"] == (
        "<error expanding template: at <$labels.task_id.x>: can't evaluate field x in type string>"
    )


def test_a_fault_of_our_own_in_a_template_does_not_lose_the_alert_either(
    make_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise KeyError("x")

    monkeypatch.setattr("engine.alerts.templates.expand", broken)
    context = make_context(annotations={"text": "{{ $value }}"})
    (alert,) = run(context, (1, True))[0].alerts.values()
    expected = "<error expanding template: internal error: KeyError: 'x'>"
    assert alert.annotations["text"] == expected
    assert context.templates.errors_total == 1


def test_alerts_and_alerts_for_state_are_written_for_pending_and_firing(
    make_context: MakeContext,
) -> None:
    context = make_context(for_ms=MINUTE, labels={"tier": "1"})
    steps = run(context, (1, True), (2, True), (3, False))

    def written(done: Step) -> dict[str, Any]:
        return {str(labels): value for labels, value in done.samples.items()}

    rest = 'alertname="Stalled"'
    tail = 'task_id="slurm:7.0", tier="1"'
    assert written(steps[0]) == {
        f'ALERTS{{{rest}, alertstate="pending", {tail}}}': 1.0,
        f"ALERTS_FOR_STATE{{{rest}, {tail}}}": 60.0,
    }
    assert written(steps[1]) == {
        f'ALERTS{{{rest}, alertstate="firing", {tail}}}': 1.0,
        f"ALERTS_FOR_STATE{{{rest}, {tail}}}": 60.0,
    }
    assert written(steps[2]) == {}


def test_a_step_leaves_the_table_it_was_given_as_it_was(make_context: MakeContext) -> None:
    context = make_context()
    before = step(context, {}, 0, [Element(JOB, 1.0)]).alerts
    copy = dict(before)
    step(context, before, MINUTE, [])
    assert before == copy
    assert before[next(iter(before))].state is AlertState.FIRING
