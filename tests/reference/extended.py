"""Windows with a modifier: a list of (time in ms, value) that reaches beside (start, end]."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from .windows import Window, changes, resets

if TYPE_CHECKING:
    from collections.abc import Callable

    Point = tuple[int, float]


def between(one: Point, other: Point, time_ms: int, *, counter: bool) -> float:
    """The line through two samples at a time; a counter that was reset rises from 0."""
    low = 0.0 if counter and other[1] < one[1] else one[1]
    return low + (other[1] - low) * (time_ms - one[0]) / (other[0] - one[0])


def risen(values: list[float], *, counter: bool) -> float:
    """From the first to the last; of a counter, with what each reset took."""
    found = values[-1] - values[0]
    if counter:
        found += sum(a for a, b in pairwise(values) if b < a)
    return found


def anchored(function: str, points: list[Point], start_ms: int, end_ms: int) -> float | None:
    """The window with the sample at or before its start, if there is one."""
    inside = [point for point in points if point[0] > start_ms]
    before = [point for point in points if point[0] <= start_ms]
    if not inside:
        return None
    window = Window(before[-1:] + inside, start_ms, end_ms, end_ms)
    if function in ("changes", "resets"):
        return {"changes": changes, "resets": resets}[function](window)
    found = risen(window.values, counter=function != "delta")
    return found / window.range_s if function == "rate" else found


def smoothed(function: str, points: list[Point], start_ms: int, end_ms: int) -> float | None:
    """The window with its edges interpolated where there are samples on both sides of them."""
    counter = function != "delta"
    after = [point for point in points if point[0] >= end_ms]
    points = [point for point in points if point[0] < end_ms] + after[:1]
    before = [point for point in points if point[0] <= start_ms]
    points = before[-1:] + [point for point in points if point[0] > start_ms]
    if not points or points[-1][0] <= start_ms or points[0][0] > end_ms:
        return None
    values = [value for _, value in points]
    if points[0][0] < start_ms:
        values[0] = between(points[0], points[1], start_ms, counter=counter)
    if points[-1][0] > end_ms and len(points) > 1:
        values[-1] = between(points[-2], points[-1], end_ms, counter=counter)
    found = risen(values, counter=counter)
    return found / ((end_ms - start_ms) / 1000) if function == "rate" else found


EXTENDED: dict[str, Callable[[str, list[Point], int, int], float | None]] = {
    "anchored": anchored,
    "smoothed": smoothed,
}
