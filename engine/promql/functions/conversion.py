"""Between scalars, vectors and times: scalar, vector, time, timestamp."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from engine.labels import Labels
from engine.promql import selection
from engine.promql.frame import Frame
from engine.promql.functions.shapes import unwrapped
from engine.promql.value import Scalar
from rules.promql.ast import VectorSelector

if TYPE_CHECKING:
    from engine.promql.context import Context, Partial
    from rules.promql.ast import Call


def scalar(context: Context, call: Call) -> Partial:
    """The value of the only series; NaN where there is none or more than one."""
    frame = context.frame(call.args[0])
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


def timestamp(context: Context, call: Call) -> Partial:
    """The time of each sample in seconds; of anything but a plain selector, the step's."""
    argument = unwrapped(call.args[0])
    if isinstance(argument, VectorSelector):
        found = selection.instant(context, argument)
        frame, seconds = found.frame, found.sample_times_ms / 1000
    else:
        frame = context.frame(argument)
        seconds = np.broadcast_to(context.times_ms / 1000, frame.values.shape)
    return context.drop_names(replace(frame, values=seconds, ordered=False), call.span)
