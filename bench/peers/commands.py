"""Rows in which nobody else evaluates: windows against windows, start-up, the live tick."""

from __future__ import annotations

import subprocess
import time
from statistics import median
from typing import TYPE_CHECKING

from bench.peers import ours
from bench.peers.packages import ROOT, Failure
from bench.peers.rows import NOTHING, START_TARGET, WINDOW_TARGET, WINDOWED
from bench.peers.table import at_most

if TYPE_CHECKING:
    from pathlib import Path

    from bench.peers.data import DataSet


def windows(data: DataSet, folder: Path, pairs: int) -> list[str]:
    """A window of 1 h against one of 5 m, both ours."""
    lines = []
    for name, file, expression in WINDOWED:
        ratios = []
        for round_ in range(pairs):
            seconds = {}
            for window in ("5m", "1h") if round_ % 2 == 0 else ("1h", "5m"):
                text = f"{expression.replace('WINDOW', window)} {NOTHING}"
                run = ours.query(text, folder / f"{file}.parquet", data)
                seconds[window] = run.evaluate_seconds
            ratios.append(seconds["1h"] / seconds["5m"])
        lines.append(_limit(f"{name}: 1 h against 5 m", ratios, WINDOW_TARGET))
    return lines


def starting(promtool: Path, pairs: int) -> list[str]:
    """`version` and `check` of the pack against `promtool check rules` of it."""
    command = [str(promtool), "check", "rules", str(ours.PACK)]
    found: dict[str, list[float]] = {"version": [], "check": []}
    for _ in range(2 * pairs):
        began = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        theirs = time.perf_counter() - began
        for name, rest in (("version", []), ("check", [str(ours.PACK)])):
            own = ours.run([name, *rest], timing=False).wall_seconds
            found[name].append(own / theirs)
    return [
        _limit(f"`{name}` against `promtool check rules`", ratios, START_TARGET)
        for name, ratios in found.items()
    ]


def ticking() -> list[str]:
    """What bench/tick.py says of a live tick: its last line."""
    script = ROOT / "bench" / "tick.py"
    if not script.exists():
        return []
    command = [str(ours.STALLWATCH.with_name("python")), "-m", "bench.tick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"bench.tick failed: {done.stderr[-500:]}")
    return [f"| live tick | {done.stdout.strip().splitlines()[-1]} | ≤ 1 s |"]


def _limit(what: str, ratios: list[float], goal: float) -> str:
    middle = median(ratios)
    figure = f"{middle:.3g} ({min(ratios):.3g} to {max(ratios):.3g})"
    return at_most(what, figure, f"{goal:g}", reached=middle <= goal)
