"""`/api/v1/alerts` and `/api/v1/rules` (web/api/v1/api.go in Prometheus)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.http.message import ApiError, Response, success
from engine.promql.numbers import format_exponent
from engine.timestamps import NEVER, format_rfc3339
from rules.model import AlertingRule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.alerts.alert import Alert
    from engine.http.message import Request
    from engine.http.sources import GroupStatus, Sources
    from engine.rulegroup.runner import RuleStatus


def alerts(sources: Sources, _request: Request) -> Response:
    """All active alerts. Ours, beyond Prometheus: `evidence`, `firedAt`, `resolvedAt`, and
    `silencedBy`, `inhibitedBy`, `mutedBy` and `dropped` where nobody is told of an alert,
    `inhibitors` and `inhibits` (labels of other alerts), `acknowledged` where somebody has seen it.
    """  # noqa: D205 - one sentence
    found = [encode_alert(alert) | _suppressed(sources, alert) for alert in sources.alerts()]
    return success({"alerts": found})


def rules(sources: Sources, request: Request) -> Response:
    """All groups, or those that `type`, `rule_name[]`, `rule_group[]` and `file[]` select."""
    wanted = request.text("type")
    if wanted not in {"", "alert", "record"}:
        message = f'invalid parameter "type": not supported value "{wanted}"'
        raise ApiError("bad_data", message)
    exclude = request.text("exclude_alerts", "false").lower()
    if exclude not in {"true", "false", "1", "0", "t", "f"}:
        message = f'invalid parameter "exclude_alerts": "{exclude}" is neither true nor false'
        raise ApiError("bad_data", message)
    with_alerts = exclude in {"false", "0", "f"}
    names = set(request.parameters.get("rule_name[]", ()))
    group_names = set(request.parameters.get("rule_group[]", ()))
    files = set(request.parameters.get("file[]", ()))
    groups = []
    for group in sources.rule_groups():
        if (group_names and group.name not in group_names) or (files and group.file not in files):
            continue
        chosen = [rule for rule in group.rules if _selected(rule, wanted, names)]
        if chosen or not (wanted or names):
            groups.append(_group(group, chosen, with_alerts=with_alerts))
    return success({"groups": groups})


def encode_alert(alert: Alert) -> dict[str, Any]:
    """One alert as the API shows it."""
    shown: dict[str, Any] = {
        "labels": alert.labels.to_dict(),
        "annotations": alert.annotations,
        "state": alert.state.value,
        "activeAt": format_rfc3339(alert.active_at_ms),
        "value": format_exponent(alert.value),
    }
    if alert.fired_at_ms is not None:
        shown["firedAt"] = format_rfc3339(alert.fired_at_ms)
    if alert.resolved_at_ms is not None:
        shown["resolvedAt"] = format_rfc3339(alert.resolved_at_ms)
    if alert.evidence:
        shown["evidence"] = [dict(entry) for entry in alert.evidence]
    return shown


def _suppressed(sources: Sources, alert: Alert) -> dict[str, Any]:
    found = sources.suppression(alert)
    named = {
        "silencedBy": found.silenced_by,
        "inhibitedBy": found.inhibited_by,
        "mutedBy": found.muted_by,
    }
    shown: dict[str, Any] = {name: list(by) for name, by in named.items() if by}
    for name, labels in (
        ("inhibitors", found.inhibitors),
        ("inhibits", tuple(one.labels for one in found.inhibits)),
    ):
        if labels:
            shown[name] = [each.to_dict() for each in labels]
    if found.dropped:
        shown["dropped"] = True
    if (seen := found.acknowledgement) is not None:
        at = format_rfc3339(seen.at_ms)
        shown["acknowledged"] = {"by": seen.author, "comment": seen.comment, "at": at}
    return shown


def _selected(status: RuleStatus, wanted: str, names: set[str]) -> bool:
    kind = "alert" if isinstance(status.rule, AlertingRule) else "record"
    return (not wanted or kind == wanted) and (not names or status.rule.name in names)


def _group(
    group: GroupStatus, chosen: Sequence[RuleStatus], *, with_alerts: bool
) -> dict[str, Any]:
    return {
        "name": group.name,
        "file": group.file,
        "rules": [_rule(status, with_alerts=with_alerts) for status in chosen],
        "interval": group.interval_ms / 1000,
        "limit": group.limit,
        "evaluationTime": group.evaluation_seconds,
        "lastEvaluation": _moment(group.last_evaluation_ms),
    }


def _rule(status: RuleStatus, *, with_alerts: bool) -> dict[str, Any]:
    rule = status.rule
    shown: dict[str, Any] = {"name": rule.name, "query": rule.expression.text}
    if isinstance(rule, AlertingRule):
        active = status.alerts
        states = {alert.state.value for alert in active}
        shown |= {
            "state": next((one for one in ("firing", "pending") if one in states), "inactive"),
            "duration": rule.for_ms / 1000,
            "keepFiringFor": rule.keep_firing_for_ms / 1000,
            "annotations": rule.annotations,
            "alerts": [encode_alert(alert) for alert in active] if with_alerts else [],
        }
    shown |= {"labels": rule.labels, "health": status.health}
    if status.last_error:
        shown["lastError"] = status.last_error
    return shown | {
        "evaluationTime": status.evaluation_seconds,
        "lastEvaluation": _moment(status.last_evaluation_ms),
        "type": "alerting" if isinstance(rule, AlertingRule) else "recording",
    }


def _moment(time_ms: int | None) -> str:
    return NEVER if time_ms is None else format_rfc3339(time_ms)
