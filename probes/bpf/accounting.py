"""What a probe's programs produced, what they lost and why, and how full its maps are.

def produced(self) -> Produced:
return account(self.name, self._bpf, ("", "events"), (("", "map_full"), ("events", "ring_full")))
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.readings import MapUse, Produced

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from probes.bpf.loader import BpfObject
    from probes.bpf.maps import Map

# A map that the probe reads at each flush is counted for nothing. One that it never walks is walked
# for this; 65,536 entries take up to 30 ms, so one map in 20 s is 0.15 % of a core at most.
WALK_SECONDS = 20.0
# What the probe has seen itself is used while it is as old as a flush or two.
FRESH_SECONDS = 25.0


def account(
    probe: str, bpf: BpfObject, streams: Sequence[str], losses: Sequence[tuple[str, str]]
) -> Produced:
    """The kernel's counters under their names, in the order of the program's SW_COUNTERS.

    `losses`: (stream, reason) of each counter of sw_lost. What the kernel skipped because a program
    already ran on that CPU is added as ("", "recursion_misses").
    """
    produced = tuple(zip(streams, bpf.produced(), strict=True))
    lost = tuple(zip(losses, bpf.lost(), strict=True))
    misses = sum(bpf.recursion_misses(program) for program in bpf.programs)
    return Produced(probe, produced, (*lost, (("", "recursion_misses"), misses)), bpf.map_use())


class Occupancy:
    """How many entries the maps that can fill hold, found out at a bounded cost."""

    def __init__(self, maps: Iterable[Map]) -> None:
        self._maps = [each for each in maps if each.info.fills]
        self._next_walk = 0.0

    def look(self) -> tuple[MapUse, ...]:
        """Every map that was walked at least once, by whomever."""
        now = time.monotonic()
        if now >= self._next_walk:
            self._walk_oldest(now)
        return tuple(
            MapUse(each.name, each.seen.entries, each.info.max_entries)
            for each in self._maps
            if each.seen is not None
        )

    def _walk_oldest(self, now: float) -> None:
        stale = [each for each in self._maps if not each.seen or now - each.seen.at > FRESH_SECONDS]
        if stale:
            oldest = min(stale, key=lambda each: each.seen.at if each.seen else 0.0)
            for _ in oldest.items():
                pass
            self._next_walk = now + WALK_SECONDS
