"""Which elements can be folded together: those that have points at the same times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.series import Int64Array


class _Timed(Protocol):
    @property
    def times_ms(self) -> Int64Array: ...


_Points = TypeVar("_Points", bound=_Timed)


def alike(points: Sequence[_Points]) -> list[list[_Points]]:
    """Groups of points, none of them empty, whose times are the same; in the order of the first."""
    groups: dict[tuple[int, int, int], list[list[_Points]]] = {}
    found = []
    for one in points:
        times = one.times_ms
        near = groups.setdefault((len(times), int(times[0]), int(times[-1])), [])
        for group in near:
            if np.array_equal(group[0].times_ms, times):
                group.append(one)
                break
        else:
            near.append([one])
            found.append(near[-1])
    return found
