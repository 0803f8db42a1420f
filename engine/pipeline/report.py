"""A dry-run's outcome for people (a table) and for programs (JSON)."""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from engine.alerts.wording import evidence_text, inert
from engine.promql.numbers import format_value
from engine.timestamps import unix_seconds
from rules.durations import format_duration
from rules.slotted import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.table import Table

    from engine.alerts.alert import Alert
    from engine.pipeline.replay import ReplayResult


def report(result: ReplayResult) -> dict[str, Any]:
    """The JSON of `dry-run --format json`: times are unix seconds."""
    return {
        "series": result.series,
        "evaluations": result.evaluations,
        "start": unix_seconds(result.start_ms),
        "end": unix_seconds(result.end_ms),
        "alerts": [_alert(alert) for alert in result.alerts],
    }


def report_text(
    result: ReplayResult, more: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[str]:
    """The same as text, piece by piece, an alert a line, with `more` fields behind."""
    head = json.dumps(report(replace(result, alerts=())), ensure_ascii=False, indent=2)
    yield head.removesuffix("[]\n}") + "["
    separator = "\n    "
    for alert in result.alerts:
        # Without indentation json encodes in C, ten times as fast.
        yield separator + json.dumps(_alert(alert), ensure_ascii=False)
        separator = ",\n    "
    yield ("\n  " if result.alerts else "") + "]"
    for name, value in more.items():
        yield f",\n  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
    yield "\n}\n"


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "alertname": alert.labels.get("alertname"),
        "labels": alert.labels.to_dict(),
        "annotations": alert.annotations,
        "evidence": list(alert.evidence),
        "active_at": unix_seconds(alert.active_at_ms),
        "fired_at": _seconds_or_none(alert.fired_at_ms),
        "resolved_at": _seconds_or_none(alert.resolved_at_ms),
        # JSON has no NaN and no infinity: those are strings, as in Prometheus' API.
        "value": alert.value if math.isfinite(alert.value) else format_value(alert.value),
    }


def _seconds_or_none(time_ms: int | None) -> int | float | None:
    return None if time_ms is None else unix_seconds(time_ms)


def alert_table(result: ReplayResult) -> Table:
    """One row per alert: when, for how long, what, how much, why."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("fired (UTC)", no_wrap=True)
    table.add_column("duration", justify="right", no_wrap=True)
    table.add_column("alert")
    table.add_column("labels")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("evidence")
    for alert in result.alerts:
        labels = ", ".join(
            f"{name}={inert(value)}" for name, value in alert.labels.without("alertname")
        )
        table.add_row(
            _clock(alert.fired_at_ms or 0),
            _lasted(alert),
            escape(inert(alert.labels.get("alertname"))),
            escape(labels),
            f"{alert.value:.4g}",
            escape("\n".join(map(evidence_text, alert.evidence))),
        )
    return table


def _clock(time_ms: int) -> str:
    at = datetime.fromtimestamp(time_ms // 1000, tz=timezone.utc)
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _lasted(alert: Alert) -> str:
    if alert.fired_at_ms is None or alert.resolved_at_ms is None:
        return "firing"
    return format_duration(alert.resolved_at_ms - alert.fired_at_ms)
