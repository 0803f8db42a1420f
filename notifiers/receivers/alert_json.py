"""What receivers of JSON are told of an alert beside its labels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from engine.timestamps import format_rfc3339

if TYPE_CHECKING:
    from engine.alerts.alert import Alert

EVIDENCE = "evidence"
INHIBITED = "inhibited"


def annotations_of(alert: Alert) -> dict[str, str]:
    """The alert's annotations; as JSON among them its evidence and what it keeps or gives back."""
    annotations = dict(alert.annotations)
    if alert.evidence:
        annotations[EVIDENCE] = json.dumps(
            list(alert.evidence), separators=(",", ":"), ensure_ascii=False
        )
    if alert.inhibited:
        shown = [
            {"labels": one.labels.to_dict(), "startsAt": format_rfc3339(one.since_ms)}
            for one in alert.inhibited
        ]
        annotations[INHIBITED] = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
    return annotations
