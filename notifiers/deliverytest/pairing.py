"""Who is meant by whom: as many pairs of what fits as there can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Wanted = TypeVar("Wanted")
Found = TypeVar("Found")


def pairs(
    wanted: Sequence[Wanted], found: Sequence[Found], fits: Callable[[Wanted, Found], bool]
) -> dict[int, int]:
    """From places in `wanted` to places in `found`; each is in one pair at most.

    One that fits several is moved where another fits only there, so that no order of writing
    decides (augmenting paths: Kuhn's algorithm).
    """
    choices = [[at for at, other in enumerate(found) if fits(one, other)] for one in wanted]
    partner: dict[int, int] = {}
    owner: dict[int, int] = {}
    for start in range(len(wanted)):
        _augment(start, choices, partner, owner)
    return partner


def _augment(
    start: int, choices: Sequence[Sequence[int]], partner: dict[int, int], owner: dict[int, int]
) -> None:
    """Find `start` a partner; breadth first, as a thousand alerts are too many to recurse."""
    reached: dict[int, int] = {}
    waiting = [start]
    for one in waiting:
        for other in choices[one]:
            if other in reached:
                continue
            reached[other] = one
            if other in owner:
                waiting.append(owner[other])
                continue
            # Along the way back each takes what was reached from it and leaves what it had.
            free: int | None = other
            while free is not None:
                taker = reached[free]
                left = partner.get(taker)
                partner[taker], owner[free] = free, taker
                free = left
            return
