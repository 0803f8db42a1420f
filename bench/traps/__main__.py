"""What it costs to watch a function that is called 20,000 times a second: `make bench-traps`.

One job (load.c) calls it throughout, and 500 synchronises and 50 collectives a second beside it.
Each rival is attached and detached in turns; the job's CPU time a launch with it is compared with
that without it right before or after. See bench/README.md.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.traps.load import Load, build, cpu_per_call
from bench.traps.rivals import Nothing, Stallwatch, bpftrace, naive
from probes.overhead.errors import OverheadError
from probes.overhead.pairs import Ratio, compare
from probes.overhead.table import machine

if TYPE_CHECKING:
    from bench.traps.rivals import Rival

MEND = "apt-get install bpftrace"
# Detaching takes up to 0.3 s for each place; left out at both ends of a slice.
MARGIN_SECONDS = 1.0


def arguments() -> argparse.Namespace:
    """The options, described in --help."""
    parser = argparse.ArgumentParser(prog="bench.traps", description=__doc__)
    parser.add_argument("--pairs", type=int, default=4, help="of each rival (default 4)")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of a slice of stallwatch and of nothing"
    )
    parser.add_argument(
        "--short", type=float, default=8.0, metavar="SECONDS", help="of a slice of the others"
    )
    parser.add_argument("--rate", type=float, default=20_000.0, help="launches a second")
    parser.add_argument("--limit", type=float, default=1.01, help="for stallwatch's upper bound")
    parser.add_argument("--only", help="rivals whose names begin so, with commas between")
    return parser.parse_args()


def rivals(folder: Path, only: str | None) -> list[Rival]:
    """Those that can run here and are wanted."""
    everyone: list[Rival] = [Nothing(), Stallwatch(folder / "agent"), naive(folder)]
    tool = bpftrace(folder)
    if tool is None:
        print(f"bpftrace is not installed: {MEND}", file=sys.stderr)
    else:
        everyone.append(tool)
    wanted = tuple(only.split(",")) if only else ("",)
    return [each for each in everyone if each.name.startswith(wanted)]


def slice_seconds(rival: Rival, options: argparse.Namespace) -> float:
    """Long ones for small effects."""
    long = isinstance(rival, (Nothing, Stallwatch))
    return float(options.seconds if long else options.short)


def one_pair(load: Load, rival: Rival, seconds: float, *, off_first: bool) -> tuple[float, float]:
    """CPU seconds a launch without the rival and with it, in neighbouring slices."""
    found = {}
    for on in (False, True) if off_first else (True, False):
        if on:
            rival.start()
            time.sleep(rival.settle_seconds)
        start = time.monotonic()
        time.sleep(seconds)
        found[on] = cpu_per_call(load.rows(), start, time.monotonic())
        if on:
            rival.stop()
            time.sleep(MARGIN_SECONDS)
    return found[False], found[True]


def duration(everyone: list[Rival], options: argparse.Namespace) -> float:
    """How long the measurement will take, roughly."""
    once = sum(2 * slice_seconds(each, options) + each.settle_seconds + 10 for each in everyone)
    return float(options.pairs * once)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Ratio]:
    """The ratios by rival."""
    everyone = rivals(folder, options.only)
    expected = duration(everyone, options)
    print(f"machine: {machine()}\nabout {expected / 60:.0f} minutes", flush=True)
    load = Load(build(folder), seconds=expected * 3 + 600, rate=options.rate)
    pairs: dict[str, list[tuple[float, float]]] = {each.name: [] for each in everyone}
    try:
        time.sleep(3)
        for round_ in range(options.pairs):
            random.shuffle(everyone)
            for rival in everyone:
                seconds = slice_seconds(rival, options)
                pair = one_pair(load, rival, seconds, off_first=round_ % 2 == 0)
                pairs[rival.name].append(pair)
                print(f"{rival.name}: {pair[1] / pair[0]:.4f}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted: this is what there was until then", file=sys.stderr)
    finally:
        for each in everyone:
            each.stop()
        load.end()
    rows = load.rows()
    passed = rows["time"][-1] - rows["time"][0]
    rate = (rows["calls"][-1] - rows["calls"][0]) / passed
    alone = [first for found in pairs.values() for first, _ in found]
    print(f"load: {rate:.0f} launches a second on the whole, {1e6 * min(alone):.1f} us each alone")
    return {name: compare(found) for name, found in pairs.items() if found}


def main() -> int:
    """Measure; 1 when stallwatch's upper bound is above the limit, 2 when nothing was measured."""
    options = arguments()
    if os.geteuid() != 0:
        print("traps: uprobes need root; mend: sudo make bench-traps", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="stallwatch-traps-") as folder:
        try:
            found = measure(options, Path(folder))
        except OverheadError as error:
            print(error, file=sys.stderr)
            return 2
    print("\n| attached | CPU time of a launch, ratio | 95 % interval | pairs |\n|---|---|---|---|")
    for name, ratio in found.items():
        interval = f"{ratio.low:.4f} to {ratio.high:.4f}"
        print(f"| {name} | {ratio.value:.4f} | {interval} | {ratio.pairs} |")
    ours = found.get("stallwatch")
    return int(ours is not None and ours.high > options.limit)


if __name__ == "__main__":
    sys.exit(main())
