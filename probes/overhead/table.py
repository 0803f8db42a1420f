"""The result of an overhead measurement, for people and as JSON."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from probes.overhead.pairs import Ratio


@dataclass(slots=True)
class Result:
    """`rows`: (what, ratio); the first is what --limit is about. `notes`: lines to go with it."""

    rows: list[tuple[str, Ratio]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False

    def is_above(self, limit: float | None) -> bool:
        """Whether the first row's upper bound is above a limit."""
        return limit is not None and bool(self.rows) and self.rows[0][1].high > limit

    def text(self) -> str:
        """Notes, then a table."""
        width = max(len(name) for name, _ in self.rows)
        lines = [*self.notes, "", f"{'':<{width}}  ratio   95 % interval     pairs"]
        lines += [
            f"{name:<{width}}  {each.value:.4f}  {each.low:.4f} to {each.high:.4f}  {each.pairs}"
            for name, each in self.rows
        ]
        return "\n".join(lines)

    def json(self) -> dict[str, object]:
        """The same as data."""
        rows = [{"what": name, **asdict(ratio)} for name, ratio in self.rows]
        return {"rows": rows, "notes": self.notes, "interrupted": self.interrupted}


def machine() -> str:
    """The machine in a line."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = next((line for line in info.splitlines() if line.startswith("model name")), ":?")
    load = "/".join(f"{each:.1f}" for each in os.getloadavg())
    name = model.partition(":")[2].strip()
    return f"{name}, {os.cpu_count()} CPUs, {platform.release()}, load {load}"
