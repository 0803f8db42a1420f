"""An alert as JSON, as state.db keeps it beside its rule and in the outbox."""

from __future__ import annotations

from typing import Any

from engine.alerts.alert import Alert, AlertState, Inhibited
from engine.labels import Labels


def alert_to_json(alert: Alert) -> dict[str, Any]:
    """A JSON object; the value is text, since JSON knows no NaN and no infinity."""
    return {
        # Not `dataclasses.asdict`, which copies all that is below, label by label.
        **{name: getattr(alert, name) for name in Alert.__match_args__},
        "annotations": dict(alert.annotations),
        "labels": alert.labels.to_dict(),
        "state": alert.state.value,
        "value": repr(float(alert.value)),
        "evidence": [dict(entry) for entry in alert.evidence],
        "inhibited": [[one.labels.to_dict(), one.since_ms] for one in alert.inhibited],
    }


def alert_from_json(row: dict[str, Any]) -> Alert:
    """The alert that `alert_to_json` wrote. Raises KeyError, TypeError or ValueError."""
    return Alert(
        **{
            **row,
            "labels": Labels(row["labels"]),
            "state": AlertState(row["state"]),
            "value": float(row["value"]),
            "evidence": tuple(row["evidence"]),
            # What an earlier version wrote has none.
            "inhibited": tuple(
                Inhibited(Labels(labels), since) for labels, since in row.get("inhibited", ())
            ),
        }
    )
