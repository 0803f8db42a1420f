"""`make bench-delivery`: the same alerts through stallwatch's delivery and a real Alertmanager.

One alertmanager.yml (routes, continue, group_by, inhibition, time intervals), one random timeline
of alerts and silences, one webhook that hears both. Compared is what each receiver was told of each
group, in which order; not when. `--seed` plays a timeline again. Our delivery runs twice: as it is,
and with `compat: alertmanager`.

Exit status 1 when a difference has no explanation, 2 when nothing could be compared.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.delivery.comparison import MEANING, Terms, compare, from_tick
from bench.delivery.configuration import REPEAT_SECONDS
from bench.delivery.hook import listening
from bench.delivery.play import play
from bench.delivery.sides import alertmanager, find_alertmanager, ours
from bench.delivery.timeline import timeline
from bench.peers.packages import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.delivery.comparison import Verdict
    from bench.delivery.hook import Key, Told
    from bench.delivery.play import Played

# By name: what `compat` says.
OURS = {"stallwatch": "stallwatch", "compat": "alertmanager"}
RECEIVERS = ("everyone", "late", "pager", "network", "nightly", "pair", "unresolved")
REPEATS = dict.fromkeys(RECEIVERS, float(REPEAT_SECONDS)) | {"office": 10.0}
# Steps lie 0.6 s before a tick at least, and 1.4 s after one: later, they mean something else.
# Ticks come later and later on a busy machine: a timer starts when the one before was heard.
STEP_SECONDS, TICK_SECONDS = 0.5, 1.2


@dataclass(frozen=True, slots=True)
class Run:
    """What a run found. `off_tick_seconds`: the furthest from a tick, by side."""

    played: Played
    verdicts: Mapping[str, Verdict]
    off_tick_seconds: Mapping[str, float]

    def is_sound(self) -> bool:
        """The machine was quick enough for the timeline to mean the same to all sides."""
        off = max(self.off_tick_seconds.values(), default=0.0)
        return self.played.late_seconds <= STEP_SECONDS and off <= TICK_SECONDS

    def failed(self) -> bool:
        """A difference has no explanation."""
        return any(one.unexplained() for one in self.verdicts.values())


def run(program: Path, seconds: float, seed: int) -> Run:
    """Play one timeline to all sides. Raises Failure."""
    drawn = timeline(seed, seconds)
    minutes = int(drawn.seconds // 60) + 2
    with tempfile.TemporaryDirectory(prefix="stallwatch-delivery-") as name, ExitStack() as stack:
        folder = Path(name)
        hook = stack.enter_context(listening())
        sides = [
            stack.enter_context(ours(each, folder, hook.url, minutes, compat))
            for each, compat in OURS.items()
        ]
        peer = stack.enter_context(alertmanager(program, folder, hook.url, minutes))
        played = play(drawn, [peer, *sides])
        with hook.lock:
            told = {side: dict(keys) for side, keys in hook.told.items()}
    return judged(played, told)


def judged(played: Played, told: Mapping[str, Mapping[Key, Sequence[Told]]]) -> Run:
    """Compare what was heard."""
    verdicts = {
        side: compare(
            told.get("alertmanager", {}),
            told.get(side, {}),
            Terms(played.ends, REPEATS, keeps_owed=compat != "alertmanager"),
        )
        for side, compat in OURS.items()
    }
    off = {
        side: max(abs(from_tick(one.at)) for each in keys.values() for one in each)
        for side, keys in told.items()
    }
    return Run(played, verdicts, off)


def report(found: Run) -> str:
    """The differences, then the counts."""
    lines = []
    for side, verdict in found.verdicts.items():
        lines += [f"{side}: {one}" for one in verdict.differences]
    lines.append("")
    for side, verdict in found.verdicts.items():
        theirs, own = verdict.messages
        lines.append(
            f"{side}: {verdict.equal} of {verdict.groups} groups were told the same; "
            f"{own} messages, {theirs} of Alertmanager"
        )
        counts = verdict.counts()
        lines += [f"  {counts[why]:4} {why} ({MEANING[why]})" for why in MEANING if counts[why]]
    off = ", ".join(f"{side} {each:.3f} s" for side, each in found.off_tick_seconds.items())
    lines.append(f"{found.played.posts} alerts fired or resolved; furthest from a tick: {off};")
    lines.append(f"the latest step was {found.played.late_seconds:.3f} s late")
    return "\n".join(lines)


def main() -> int:
    """Run and print; the exit status."""
    parser = argparse.ArgumentParser(prog="bench.delivery", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, help="a short one")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    seconds = options.minutes * 60 if options.seconds is None else options.seconds
    try:
        program = find_alertmanager()
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        print(f"{said.stdout.splitlines()[0]}; Python {sys.version.split()[0]}")
        print(f"seed {options.seed}, {seconds:g} s, load {os.getloadavg()[0]:.1f}", flush=True)
        found = run(program, seconds, options.seed)
    except Failure as failure:
        print(f"bench.delivery: {failure}", file=sys.stderr)
        return 2
    print(report(found))
    if not found.is_sound():
        print(
            f"steps more than {STEP_SECONDS} s late or messages {TICK_SECONDS} s off their tick: "
            "this machine is too busy to compare",
            file=sys.stderr,
        )
        return 2
    return int(found.failed())


if __name__ == "__main__":
    sys.exit(main())
