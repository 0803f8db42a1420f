"""`make bench-peers`: the same rules over the same data here, in Prometheus, in VictoriaMetrics.

One data set, results compared first, then each side timed in turn. See bench/README.md.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.peers import ours, pack, servers
from bench.peers.agreement import agree
from bench.peers.commands import starting, ticking, windows
from bench.peers.data import STEP_MS, make, write_as_parquet
from bench.peers.packages import Failure, programs, version
from bench.peers.rows import EXPRESSIONS, NAMES, PACK_MEMORY_BYTES, PACK_TARGETS
from bench.peers.table import HEAD, LIMITS_HEAD, Timed, at_most, load, machine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.peers.data import DataSet
    from bench.peers.packages import Programs
    from bench.peers.rows import Row
    from bench.peers.servers import Server


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options, described in --help."""
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    parser.add_argument(
        "--rows", default=",".join(NAMES), help="which, separated by commas (default: %(default)s)"
    )
    parser.add_argument("--pairs", type=int, default=5, help="how often each side is timed")
    parser.add_argument("--scale", type=float, default=1.0, help="of 1,000 counters and gauges")
    parser.add_argument("--hours", type=float, default=24.0, help="of data")
    parser.add_argument("--folder", help="where the temporary folder is made")
    parser.add_argument(
        "--only-installed",
        action="store_true",
        help="fetch no package; compare with Prometheus alone where VictoriaMetrics is missing",
    )
    parser.add_argument(
        "--skip-check", action="store_true", help="do not compare results first (for profiling)"
    )
    found = parser.parse_args(given)
    found.rows = found.rows.split(",")
    unknown = set(found.rows) - set(NAMES)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    return found


def say(text: str) -> None:
    """Progress, beside the table."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything that a row needs. `victoria` None: it is not here."""

    data: DataSet
    folder: Path
    programs: Programs
    prometheus: Server
    victoria: Server | None
    pairs: int

    def servers(self, row: Row) -> list[Server]:
        """Those that mean the same by a row as we do."""
        victoria = self.victoria if row.same_in_victoria else None
        return [self.prometheus, *([victoria] if victoria else [])]

    def timed(self, row: Row) -> Timed:
        """An expression: evaluation seconds of ours, the request's of theirs."""
        file = self.folder / f"{row.data}.parquet"

        def ask(server: Server) -> float:
            began = time.perf_counter()
            server.query_range(row.timed, self.data.start_ms, self.data.end_ms, STEP_MS)
            return time.perf_counter() - began

        victoria = self.victoria
        return self.rounds(
            f"`{row.timed}`",
            lambda: ours.query(row.timed, file, self.data).evaluate_seconds,
            lambda: ask(self.prometheus),
            (lambda: ask(victoria)) if victoria else None,
            row.targets,
        )

    def rounds(
        self,
        work: str,
        own: Callable[[], float],
        prometheus: Callable[[], float],
        victoria: Callable[[], float] | None,
        targets: tuple[float, float],
    ) -> Timed:
        """Each side once a round, in one order and then in the other."""
        sides = [side for side in (own, prometheus, victoria) if side is not None]
        seconds: list[list[float]] = [[] for _ in (own, prometheus, victoria)]
        for round_ in range(self.pairs):
            order = range(len(sides)) if round_ % 2 == 0 else reversed(range(len(sides)))
            for side in order:
                seconds[side].append(sides[side]())
            say(f"  {work}: " + ", ".join(f"{each[-1]:.3f}" for each in seconds if each))
        first, second, third = map(tuple, seconds)
        return Timed(work, first, second, third, targets)


def pack_rows(bench: Bench) -> tuple[Timed, str]:
    """The rule pack as a whole process, and the memory that it takes."""
    file = bench.folder / "all.parquet"
    peaks: list[float] = []
    fired: dict[str, list[pack.Firing]] = {}

    def own() -> float:
        result = ours.dry_run(file, bench.data)
        peaks.append(result.timing["peak_memory_bytes"])
        fired["ours"] = pack.of_report(ours.alerts(result))
        return result.wall_seconds

    def prometheus() -> float:
        seconds, fired["Prometheus"] = pack.by_range_queries(bench.prometheus, bench.data)
        return seconds

    server, vmalert = bench.victoria, bench.programs.vmalert
    timed = bench.rounds(
        "dry-run of 20 rules, whole process",
        own,
        prometheus,
        (lambda: pack.by_vmalert(vmalert, server, bench.data)) if server and vmalert else None,
        PACK_TARGETS,
    )
    if fired["ours"] != fired["Prometheus"]:
        one = sorted(set(fired["ours"]) ^ set(fired["Prometheus"]))[:3]
        raise Failure(f"the pack's alerts differ, such as {one}")
    say(f"pack: {len(fired['ours'])} alerts fire, the same at the same times in Prometheus")
    peak = max(peaks)
    return timed, at_most(
        "peak memory of the dry-run",
        f"{peak / 2**20:.0f} MiB",
        "1 GiB",
        reached=peak <= PACK_MEMORY_BYTES,
    )


def report(bench: Bench, options: argparse.Namespace, versions: Sequence[str]) -> None:
    """Check, time, print."""
    before = machine(versions)
    rows = [row for row in EXPRESSIONS if row.name in options.rows]
    if not options.skip_check:
        for row in rows:
            for agreement in agree(row, bench.data, bench.folder, bench.servers(row)):
                say(str(agreement))
    table = [bench.timed(row) for row in rows]
    limits: list[str] = []
    if "pack" in options.rows:
        timed, memory = pack_rows(bench)
        table.append(timed)
        limits.append(memory)
    if "windows" in options.rows:
        limits += windows(bench.data, bench.folder, options.pairs)
    if "start" in options.rows:
        limits += starting(bench.programs.promtool, options.pairs)
    if "tick" in options.rows:
        limits += ticking()
    print(f"{before} before, {load()} after\n")
    if table:
        print("\n".join([HEAD, *map(str, table)]), end="\n\n")
    if limits:
        print("\n".join([LIMITS_HEAD, *limits]))


def measure(options: argparse.Namespace) -> None:
    """Start everything, report, stop everything."""
    found = programs(download=not options.only_installed)
    versions = [f"Prometheus {version('prometheus')}"]
    if found.victoria:
        versions.append(f"VictoriaMetrics {version('victoria-metrics')}")
    data = make(max(1, round(1000 * options.scale)), options.hours)
    say(f"data: {data.samples:,} samples of {len(data.counters)} counters and as many gauges")
    with ExitStack() as stack:
        name = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="stallwatch-peers-", dir=options.folder)
        )
        folder = Path(name)
        write_as_parquet(data, folder)
        say("loading Prometheus ...")
        prometheus = stack.enter_context(servers.prometheus(found, data, folder))
        victoria = None
        if found.victoria:
            say("loading VictoriaMetrics ...")
            victoria = stack.enter_context(servers.victoria(found, data, folder))
        os.sync()  # so that nobody writes while somebody is timed
        bench = Bench(data, folder, found, prometheus, victoria, options.pairs)
        for server in (prometheus, victoria):
            if server is not None:
                servers.warm(server, data)
        report(bench, options, versions)


def main() -> int:
    """Exit 2 where nothing could be compared, 130 after Ctrl-C; everything is removed then too."""
    options = arguments()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    try:
        measure(options)
    except Failure as failure:
        print(f"bench.peers: {failure}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench.peers: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
