"""Calendar functions, in UTC. Without an argument they read the evaluation time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.labels import Labels
from engine.promql.frame import Frame
from rules.slotted import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.context import Context, Partial
    from engine.promql.functions.shapes import Implementation
    from engine.series import Float64Array, Int64Array
    from rules.promql.ast import Call

_CYCLE_SECONDS = 146_097 * 86_400
Seconds: TypeAlias = "npt.NDArray[np.datetime64]"


def _since(times: Seconds, unit: str, within: str) -> Int64Array:
    """How many `unit`s after the start of the current `within`."""
    count: Int64Array = (times.astype(f"M8[{unit}]") - times.astype(f"M8[{within}]")).astype(
        np.int64
    )
    return count


def minute(times: Seconds) -> Int64Array:
    """0 to 59."""
    return _since(times, "m", "h")


def hour(times: Seconds) -> Int64Array:
    """0 to 23."""
    return _since(times, "h", "D")


def day_of_week(times: Seconds) -> Int64Array:
    """0 (Sunday) to 6; 1970-01-01 was a Thursday."""
    return (times.astype("M8[D]").astype(np.int64) + 4) % 7


def day_of_month(times: Seconds) -> Int64Array:
    """1 to 31."""
    return _since(times, "D", "M") + 1


def day_of_year(times: Seconds) -> Int64Array:
    """1 to 366."""
    return _since(times, "D", "Y") + 1


def days_in_month(times: Seconds) -> Int64Array:
    """28 to 31."""
    months = times.astype("M8[M]")
    days: Int64Array = (
        (months + np.timedelta64(1, "M")).astype("M8[D]") - months.astype("M8[D]")
    ).astype(np.int64)
    return days


def month(times: Seconds) -> Int64Array:
    """1 to 12."""
    return _since(times, "M", "Y") + 1


def year(times: Seconds) -> Int64Array:
    """The year."""
    return times.astype("M8[Y]").astype(np.int64) + 1970


def of_date(part: Callable[[Seconds], Int64Array]) -> Implementation:
    """A calendar function as a function of the language."""

    def implementation(context: Context, call: Call) -> Partial:
        if not call.args:
            seconds = (context.times_ms // 1000).astype("M8[s]")
            values = part(seconds).astype(np.float64)[None, :]
            return Frame((Labels(),), values, np.ones(values.shape, dtype=np.bool_), (False,))
        frame = context.frame(call.args[0]).without_histograms()
        values = _of_seconds(part, frame.values)
        return context.drop_names(replace(frame, values=values, ordered=False), call.span)

    return implementation


def _of_seconds(part: Callable[[Seconds], Int64Array], seconds: Float64Array) -> Float64Array:
    # Beyond what a whole number of seconds holds there is no date: NaN, where Go would wrap around.
    usable = np.abs(seconds) < 2.0**63
    whole = np.trunc(np.where(usable, seconds, 0.0)).astype(np.int64)
    # The calendar repeats every 400 years, so numpy need not reach farther than the year 2370.
    cycles, within = np.divmod(whole, _CYCLE_SECONDS)
    parts = part(within.astype("M8[s]")).astype(np.float64)
    if part is year:
        parts += 400.0 * cycles
    return np.where(usable, parts, np.nan)
