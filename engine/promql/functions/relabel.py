"""label_replace and label_join."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.labels import METRIC_NAME
from engine.promql.errors import EvaluationError
from engine.promql.regex import PatternError, compile_pattern
from rules.slotted import replace

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.promql.context import Context, Partial
    from engine.promql.frame import Frame
    from rules.promql.ast import Call


def is_label_name(name: str) -> bool:
    """Whether Prometheus 3 accepts a label name: any UTF-8 text that is not empty.

    Bytes in a string literal that are no UTF-8 arrive as U+FFFD, or as lone surrogates.
    """
    return bool(name) and not any(char == "\ufffd" or "\ud800" <= char <= "\udfff" for char in name)


def label_replace(context: Context, call: Call) -> Partial:
    """Set a label from a template where another label matches a pattern."""
    destination, template, source, pattern = (context.string(arg) for arg in call.args[1:5])
    try:
        regex = compile_pattern(pattern)
    except PatternError as error:
        raise EvaluationError(
            f"invalid regular expression in label_replace(): {pattern}", call.args[4].span
        ) from error
    if not is_label_name(destination):
        raise EvaluationError(
            f"invalid destination label name in label_replace(): {destination}", call.args[1].span
        )
    frame = context.frame(call.args[0])
    labels, drops = list(frame.labels), list(frame.drops)
    for row, own in enumerate(frame.labels):
        replacement = regex.expand(template, own.get(source))
        if replacement is None:
            continue
        labels[row] = own.merged({destination: replacement})
        drops[row] = drops[row] and destination != METRIC_NAME
    return _relabelled(frame, labels, drops, call)


def label_join(context: Context, call: Call) -> Partial:
    """Set a label to others joined by a separator."""
    destination, separator, *sources = (context.string(arg) for arg in call.args[1:])
    for arg, name, role in (
        *((arg, name, "source") for arg, name in zip(call.args[3:], sources, strict=True)),
        (call.args[1], destination, "destination"),
    ):
        if not is_label_name(name):
            raise EvaluationError(f"invalid {role} label name in label_join(): {name}", arg.span)
    frame = context.frame(call.args[0])
    labels = [
        own.merged({destination: separator.join(map(own.get, sources))}) for own in frame.labels
    ]
    drops = [drop and destination != METRIC_NAME for drop in frame.drops]
    return _relabelled(frame, labels, drops, call)


def _relabelled(frame: Frame, labels: list[Labels], drops: list[bool], call: Call) -> Frame:
    renamed = replace(frame, labels=tuple(labels), drops=tuple(drops), ordered=False)
    return renamed.merged(call.span)
