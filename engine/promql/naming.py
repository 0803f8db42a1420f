"""When a metric's name goes away.

Prometheus 3 marks a series whose name an operation removes and removes it at the very end
(delayed name removal), so that `label_replace` can still read it. Without that, the name goes at
once. `__type__` and `__unit__` go with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.labels import METRIC_NAME
from engine.promql.remembered import REMEMBERED
from rules.slotted import replace

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.promql.frame import Frame
    from rules.source import Span

METADATA = (METRIC_NAME, "__type__", "__unit__")


def unnamed(labels: Labels) -> Labels:
    """The labels without name, type and unit."""
    if not any(name in METADATA for name, _ in labels.pairs):
        return labels
    return labels.without(*METADATA)


def drop_names(frame: Frame, *, delayed: bool, span: Span | None = None) -> Frame:
    """Remove the names of all rows, now or at the end.

    Raises EvaluationError if that leaves two series with the same labels at one step.
    """
    if delayed:
        return replace(frame, drops=(True,) * len(frame.labels))
    return replace(frame, labels=tuple(map(unnamed, frame.labels))).merged(span)


def finish(frame: Frame) -> Frame:
    """Do the removals that were delayed; rows that are never present go too."""
    frame = frame.without_absent()
    if not any(frame.drops):
        return frame
    named, drops = frame.labels, frame.drops
    if frame.steps == 1 and all(drops):
        # A live rule's series are the same at the next step.
        labels = REMEMBERED.get((named,), "unnamed", lambda: tuple(map(unnamed, named)))
    else:
        labels = tuple(
            unnamed(own) if drop else own for own, drop in zip(named, drops, strict=True)
        )
    return replace(frame, labels=labels, drops=(False,) * len(labels)).merged()
