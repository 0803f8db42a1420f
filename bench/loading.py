"""What compiling costs: start-up time and memory of all probes, in a child and in the agent itself.

    sudo python -m bench.loading [--runs 3]

Each run starts every registered probe in a fresh process, once with the compiler in a child that
ends, and once with bcc in the process itself, as a plain bcc tool has it; in turns, same machine,
same sources. Seconds: from the first `start` to the last. Memory: of that process alone, three
seconds later (the child has gone), from /proc/self/smaps_rollup.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from engine.readings import ProbeOptions
from probes.bpf import compile_child, passing
from probes.bpf.compiler import Answer, Compiler

SETTLE_SECONDS = 3.0


class _InProcess:
    """Answers as the child does, out of this very process."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        threading.Thread(target=compile_child.serve, args=(theirs,), daemon=True).start()

    def ask(self, request: dict[str, Any]) -> Answer:
        passing.send(self._ours, request)
        message, fds = passing.receive(self._ours)
        return Answer(message, fds, "")


def memory() -> dict[str, float]:
    """Rss, Pss and private memory of this process in MB."""
    fields = {}
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if rest.endswith("kB"):
            fields[name] = int(rest.split()[0]) / 1024
    return {
        "rss": fields["Rss"],
        "pss": fields["Pss"],
        "private": fields["Private_Dirty"] + fields["Private_Clean"],
    }


def measure(mode: str) -> dict[str, Any]:
    """One run in this process."""
    if mode == "in the agent":
        here = _InProcess()
        Compiler.ask = lambda _, request: here.ask(request)  # type: ignore[assignment, method-assign]
    points = sorted(entry_points(group="stallwatch.probes"), key=lambda point: point.name)
    probes = [point.load()() for point in points]
    before = memory()
    began = time.monotonic()
    statuses = {probe.name: probe.start(ProbeOptions(), _ignore).state for probe in probes}
    seconds = time.monotonic() - began
    time.sleep(SETTLE_SECONDS)
    after = memory()
    for probe in probes:
        probe.stop()
    return {"seconds": seconds, "before": before, "after": after, "statuses": statuses}


def _ignore(_: object) -> None:
    pass


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description="start-up time and memory of all probes")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--mode", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.mode:
        print(json.dumps(measure(args.mode)), flush=True)
        os._exit(0)  # bcc's exit handlers would print
    modes = ("in a child", "in the agent")
    runs: dict[str, list[dict[str, Any]]] = {mode: [] for mode in modes}
    for _ in range(args.runs):
        for mode in modes:
            command = [sys.executable, "-W", "ignore", "-m", "bench.loading", "--mode", mode]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            runs[mode].append(json.loads(done.stdout))
    states = next(iter(runs.values()))[0]["statuses"]
    print(", ".join(f"{name} {state}" for name, state in states.items()))
    print(f"medians of {args.runs} runs; MB of the process, before -> after")
    for mode in modes:
        cells = [f"{statistics.median(run['seconds'] for run in runs[mode]):.2f} s"]
        for field in ("rss", "pss", "private"):
            one, two = (
                statistics.median(run[when][field] for run in runs[mode])
                for when in ("before", "after")
            )
            cells.append(f"{field} {one:.0f} -> {two:.0f}")
        print(f"  compiling {mode:<12}", ", ".join(cells))


if __name__ == "__main__":
    main()
