"""The alert state machine of one rule: a pure step from one evaluation to the next.

It follows Prometheus 3 (rules/alerting.go, `AlertingRule.Eval`): inactive, pending, firing, and
resolved for fifteen minutes after. Live evaluation and replay call the same `step`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from engine.alerts.alert import Alert, AlertState
from engine.labels import METRIC_NAME, Labels
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.alerts.hold import Hold
    from engine.alerts.templates import AlertTemplates
    from rules.model import AlertingRule

ALERTS = "ALERTS"
ALERTS_FOR_STATE = "ALERTS_FOR_STATE"
ALERT_NAME = "alertname"
ALERT_STATE = "alertstate"
# How long the API still shows a resolved alert, and an Alertmanager is told of it.
RESOLVED_RETENTION_MS = 15 * 60 * 1000
SAME_LABELS = "vector contains metrics with the same labelset after applying alert labels"

AlertTable: TypeAlias = "Mapping[Labels, Alert]"


@dataclass(frozen=True, slots=True)
class Element:
    """One element of the expression's result; `labels` include `__name__` if it has one."""

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class AlertContext:
    """A rule with what its alerts need to know of their place.

    `limit` 0: none. `writes` False: nobody reads its `ALERTS`, so a replay leaves them out.
    """

    rule: AlertingRule
    templates: AlertTemplates
    file: str = ""
    group: str = ""
    limit: int = 0
    generator_url: str = ""
    writes: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """What one evaluation did.

    `alerts`: the table afterwards, by labels. `transitions`: those that just fired or resolved.
    `samples`: the values of `ALERTS` and `ALERTS_FOR_STATE`. `error`: "" or why the rule failed;
    then there are no transitions and no samples.
    """

    alerts: AlertTable
    transitions: tuple[Alert, ...] = ()
    samples: dict[Labels, float] = field(default_factory=dict)
    error: str = ""


def step(
    context: AlertContext,
    alerts: AlertTable,
    time_ms: int,
    elements: Sequence[Element],
    hold: Hold | None = None,
) -> Step:
    """The evaluation at `time_ms`, whose expression gave `elements`, applied to `alerts`.

    `hold`: what the rule's resolve expression gave; it keeps alerts firing and begins none.
    """
    found: dict[Labels, Element] = {}
    for element in elements:
        labels = context.templates.labels(element)
        if labels in found:
            return Step(alerts, error=f"{SAME_LABELS}: {labels}")
        found[labels] = element
    after: dict[Labels, Alert] = {}
    for labels, old in alerts.items():
        moved = _next(context, old, found.pop(labels, None), time_ms, hold)
        if moved is not None:
            after[labels] = moved
    for labels, element in found.items():
        after[labels] = _begin(context, labels, element, time_ms)
    active = [alert for alert in after.values() if is_active(alert)]
    if 0 < context.limit < len(active):
        return Step({}, error=over_limit(context.limit, len(active)))
    samples = _samples(context, active) if context.writes else {}
    return Step(after, _transitions(after.values(), time_ms), samples)


def over_limit(limit: int, active: int) -> str:
    """Why a rule fails that has more alerts than its group allows."""
    return f"exceeded limit of {limit} with {active} alerts"


def is_active(alert: Alert) -> bool:
    """Pending or firing."""
    return alert.state is not AlertState.RESOLVED


def _begin(context: AlertContext, labels: Labels, element: Element, time_ms: int) -> Alert:
    """A new alert: pending, or firing where there is nothing to wait for."""
    fires = context.rule.for_ms <= 0
    return Alert(
        labels=labels,
        annotations=context.templates.annotations(element),
        state=AlertState.FIRING if fires else AlertState.PENDING,
        value=element.value,
        active_at_ms=time_ms,
        fired_at_ms=time_ms if fires else None,
        last_evaluation_ms=time_ms,
        generator_url=context.generator_url,
        rule_file=context.file,
        group=context.group,
    )


def _next(
    context: AlertContext, old: Alert, element: Element | None, time_ms: int, hold: Hold | None
) -> Alert | None:
    """What becomes of an alert that was in the table; None: forgotten."""
    if element is not None:
        if old.state is AlertState.RESOLVED:
            return _begin(context, old.labels, element, time_ms)
        due = old.state is AlertState.PENDING and (
            time_ms - old.active_at_ms >= context.rule.for_ms
        )
        return replace(
            old,
            state=AlertState.FIRING if due else old.state,
            fired_at_ms=time_ms if due else old.fired_at_ms,
            value=element.value,
            annotations=context.templates.annotations(element),
            last_evaluation_ms=time_ms,
            keep_firing_since_ms=None,
        )
    if old.state is AlertState.PENDING:
        return None
    if old.state is AlertState.RESOLVED:
        resolved_at = old.resolved_at_ms if old.resolved_at_ms is not None else time_ms
        return None if time_ms - resolved_at > RESOLVED_RETENTION_MS else old
    if hold is not None and hold.covers(old.labels):
        # As if its expression held, `keep_firing_for` counts from the end of this.
        return replace(old, keep_firing_since_ms=None, last_evaluation_ms=time_ms)
    since = time_ms if old.keep_firing_since_ms is None else old.keep_firing_since_ms
    if time_ms - since < context.rule.keep_firing_for_ms:
        return replace(old, keep_firing_since_ms=since, last_evaluation_ms=time_ms)
    return replace(old, state=AlertState.RESOLVED, resolved_at_ms=time_ms)


def _transitions(alerts: Iterable[Alert], time_ms: int) -> tuple[Alert, ...]:
    """Those that fired or resolved at `time_ms`, resolutions first, then by labels."""
    changed = [
        alert
        for alert in alerts
        if (alert.state is AlertState.FIRING and alert.fired_at_ms == time_ms)
        or (alert.state is AlertState.RESOLVED and alert.resolved_at_ms == time_ms)
    ]
    return tuple(sorted(changed, key=lambda alert: (is_active(alert), alert.labels)))


def _samples(context: AlertContext, active: Iterable[Alert]) -> dict[Labels, float]:
    samples: dict[Labels, float] = {}
    for alert in active:
        labels = context.templates.written(alert.labels)
        samples[alerts_labels(labels, alert.state.value)] = 1.0
        # Prometheus stores whole seconds.
        samples[for_state_labels(labels)] = float(alert.active_at_ms // 1000)
    return samples


@lru_cache(maxsize=4096)
def alerts_labels(labels: Labels, state: str) -> Labels:
    """The series that says that an alert is pending or firing."""
    return labels.merged({METRIC_NAME: ALERTS, ALERT_STATE: state})


@lru_cache(maxsize=4096)
def for_state_labels(labels: Labels) -> Labels:
    """The series that says since when an alert has been active."""
    return labels.merged({METRIC_NAME: ALERTS_FOR_STATE})
