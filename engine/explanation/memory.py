"""What `anomaly_score` expected of an element, and which of its departures was the strongest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.baselines.anomaly.threshold import ANOMALY_THRESHOLD
from engine.baselines.identity import canonical
from engine.explanation.data import nameless, number
from engine.timestamps import unix_seconds

if TYPE_CHECKING:
    from engine.explanation.data import Data
    from engine.labels import Labels
    from rules.promql.ast import Call


def of_model(data: Data, call: Call, time_ms: int, labels: Labels, score: float) -> dict[str, Any]:
    """The band, and each departure as so many times what an onset takes.

    Nothing where the model of that time is not known any more: then it gives another score.
    """
    fold = data.fold(call, canonical(call.args[0]), time_ms)
    elements = {} if fold is None else fold.elements
    for (own, _), element in elements.items():
        if nameless(own) != nameless(labels):
            continue
        explanation = element.model.explain()
        if explanation.score != score:
            return {}
        lowest, highest = explanation.band
        strengths = {part: number(each) for part, each in explanation.strengths.items()}
        return {
            "onset_from": ANOMALY_THRESHOLD,
            "expected": [number(lowest), number(highest)],
            "strongest": explanation.part,
            "strengths": strengths,
            "point": unix_seconds(element.last_ms),
        }
    return {}
