"""Between scalars, vectors and times: scalar, vector, time, timestamp."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.labels import Labels
from engine.promql import selection
from engine.promql.frame import Frame
from engine.promql.value import Scalar
from rules.promql.ast import VectorSelector
from rules.promql.walk import unwrapped
from rules.slotted import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.context import Context, Partial
    from engine.promql.functions.shapes import Implementation
    from engine.series import Float64Array
    from rules.promql.ast import Call


def scalar(context: Context, call: Call) -> Partial:
    """The value of the only series; NaN where there is none or more than one."""
    frame = context.frame(call.args[0]).without_histograms()
    if not frame.labels:
        return context.constant(np.nan)
    owner = frame.present.argmax(axis=0)
    only = frame.values[owner, np.arange(frame.steps)]
    return Scalar(np.where(frame.present.sum(axis=0) == 1, only, np.nan))


def vector(context: Context, call: Call) -> Partial:
    """A scalar as a vector of one series without labels."""
    values = context.scalar(call.args[0])[None, :]
    return Frame((Labels(),), values, np.ones(values.shape, dtype=np.bool_), (False,))


def time(context: Context, _call: Call) -> Partial:
    """The evaluation time in seconds."""
    return Scalar(context.times_ms / 1000)


def query_start(context: Context, _call: Call) -> Partial:
    """The first time of the query, in seconds."""
    return context.constant(context.start_ms / 1000)


def query_end(context: Context, _call: Call) -> Partial:
    """The last time of the query, in seconds."""
    return context.constant(context.end_ms / 1000)


def query_step(context: Context, _call: Call) -> Partial:
    """The query's step in seconds; 0 for an instant query, and so for a rule."""
    return context.constant(context.step_ms / 1000)


def query_range(context: Context, _call: Call) -> Partial:
    """How long the query's range is, in seconds; 0 for an instant query, and so for a rule."""
    length = context.end_ms - context.start_ms if context.step_ms else 0
    return context.constant(length / 1000)


def of_two(function: Callable[[Float64Array, Float64Array], Float64Array]) -> Implementation:
    """A function of two scalars; NaN if either is."""

    def implementation(context: Context, call: Call) -> Partial:
        return Scalar(function(context.scalar(call.args[0]), context.scalar(call.args[1])))

    return implementation


def timestamp(context: Context, call: Call) -> Partial:
    """The time of each sample in seconds; of anything but a plain selector, the step's."""
    argument = unwrapped(call.args[0])
    if isinstance(argument, VectorSelector):
        found = selection.instant(context, argument)
        frame, seconds = found.frame, found.sample_times_ms / 1000
    else:
        frame = context.frame(argument)
        seconds = np.broadcast_to(context.times_ms / 1000, frame.values.shape)
    timed = replace(frame, values=seconds, ordered=False, histograms=None)
    return context.drop_names(timed, call.span)


def start_timestamp(context: Context, call: Call) -> Partial:
    """Since when each sample of a plain selector has been counting, in seconds; 0: unknown.

    Nothing for any other argument, nor unless start timestamps are switched on.
    """
    argument = unwrapped(call.args[0])
    if not isinstance(argument, VectorSelector) or not context.options.start_timestamps:
        context.frame(argument)
        return Frame.empty(context.steps)
    frame = selection.instant(context, argument).frame
    seconds = selection.start_times_ms(context, argument) / 1000
    timed = replace(frame, values=seconds, ordered=False, histograms=None)
    return context.drop_names(timed, call.span)
