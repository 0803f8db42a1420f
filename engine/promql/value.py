"""Evaluation's values: an axis of times and, over it, scalars and vectors.

S is the number of series, T the number of steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rules.slotted import dataclass

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.series import BoolArray, Float64Array, Int64Array, Series


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The evaluation times: int64[T], unix milliseconds, increasing.

    `step_ms` is 0 for an instant query. `start_ms` and `end_ms` are what `@ start()` and
    `@ end()` mean. `rule` true: a set of instant queries (docs/semantics.md, 1): at each step
    start = end = t, and no sample later than t is visible.
    """

    times_ms: Int64Array
    step_ms: int
    rule: bool = False

    @classmethod
    def instant(cls, time_ms: int) -> Axis:
        """A single time."""
        return cls(np.array([time_ms], dtype=np.int64), 0, rule=True)

    @classmethod
    def span(cls, start_ms: int, end_ms: int, step_ms: int, *, rule: bool = False) -> Axis:
        """start, start + step, ... up to and including end."""
        return cls(np.arange(start_ms, end_ms + 1, step_ms, dtype=np.int64), step_ms, rule=rule)


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """float64[T]."""

    values: Float64Array


@dataclass(frozen=True, slots=True)
class String:
    """The same text at every step."""

    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """An instant vector at each step.

    `values`: float64[S, T]. `present`: bool[S, T]; where it is False the value means nothing
    (NaN is data, never absence). `order`: None, or for the functions that sort (`sort`, `topk`
    in an instant query) the row numbers in the order to show.
    """

    labels: tuple[Labels, ...]
    values: Float64Array
    present: BoolArray
    order: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """A range vector at one time: the raw samples of each series. Only as a query's result."""

    series: tuple[Series, ...]


Value: TypeAlias = Scalar | String | Vector | Matrix


@dataclass(frozen=True, slots=True)
class Result:
    """A value with what Prometheus would warn of. Texts carry their own place."""

    value: Value
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
