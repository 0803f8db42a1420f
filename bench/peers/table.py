"""Figures of pairs, and the Markdown that shows them."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = (
    "| work | ours | Prometheus | times faster | goal | VictoriaMetrics | times faster | goal |\n"
    "|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times faster than another: one ratio a pair, neighbours in time."""

    ratios: tuple[float, ...]
    goal: float

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.ratios)

    def __str__(self) -> str:
        low, high = min(self.ratios), max(self.ratios)
        return f"**{self.middle:.3g}** ({low:.3g} to {high:.3g})"


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of each side, a round each; empty for a side that was not there."""

    work: str
    ours: tuple[float, ...]
    prometheus: tuple[float, ...]
    victoria: tuple[float, ...]
    targets: tuple[float, float]

    def ratio(self, others: Sequence[float], goal: float) -> Ratio | None:
        """Against another side."""
        pairs = zip(others, self.ours, strict=True) if others else ()
        ratios = tuple(theirs / own for theirs, own in pairs)
        return Ratio(ratios, goal) if ratios else None

    def __str__(self) -> str:
        cells = [self.work, _seconds(self.ours)]
        for others, goal in zip((self.prometheus, self.victoria), self.targets, strict=True):
            ratio = self.ratio(others, goal)
            if ratio is None:
                cells += ["", "", ""]
            else:
                reached = "" if ratio.middle >= goal else " missed"
                cells += [_seconds(others), str(ratio), f"≥ {goal:g}{reached}"]
        return f"| {' | '.join(cells)} |"


def at_most(what: str, figure: str, goal: str, *, reached: bool) -> str:
    """A line for a figure that has a limit."""
    return f"| {what} | {figure} | ≤ {goal}{'' if reached else ' missed'} |"


LIMITS_HEAD = "| | measured | goal |\n|---|---|---|"


def _seconds(times: Sequence[float]) -> str:
    return f"{min(times):.3g} s"


def machine(versions: Sequence[str]) -> str:
    """The machine and the programs in a line."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = next((line for line in info.splitlines() if line.startswith("model name")), ":?")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    own = [f"Python {sys.version.split()[0]}", f"numpy {np.__version__}"]
    parts = [
        f"{len(os.sched_getaffinity(0))} cores ({model.partition(':')[2].strip()})",
        f"{memory:.0f} GiB",
        f"Linux {platform.release()}",
        *own,
        *versions,
        load(),
    ]
    return ", ".join(parts)


def load() -> str:
    """The load of the machine: what else ran."""
    return f"load {'/'.join(f'{each:.1f}' for each in os.getloadavg())}"
