"""What receivers of JSON are told of an alert beside its labels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.alerts.alert import Alert

EVIDENCE = "evidence"


def annotations_of(alert: Alert) -> dict[str, str]:
    """The alert's annotations, its evidence among them as JSON, which no annotation can hold."""
    annotations = dict(alert.annotations)
    if alert.evidence:
        annotations[EVIDENCE] = json.dumps(
            list(alert.evidence), separators=(",", ":"), ensure_ascii=False
        )
    return annotations
