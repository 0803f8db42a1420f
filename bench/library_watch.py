"""What following libraries costs: the agent per poll, and other processes per fork, exec and exit.

    .venv/bin/python -m bench.library_watch --processes 64 --threads 200
    sudo .venv/bin/python -m bench.library_watch --hook

Each figure stands beside its peer, measured in turns within the same run: six subscribers beside
one, one listing of a process' threads beside a look at each, a node with the hook beside one
without.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from probes.libraries.hook import LinkerHook
from probes.libraries.maps import LibraryNames, identify, is_thread, threads
from probes.libraries.watch import LibraryWatch

if TYPE_CHECKING:
    from collections.abc import Callable

LIBRARY = "libsqlite3.so"
# Processes that map the library, each with so many threads, until their input ends.
CHILD = """
import sqlite3, sys, threading, time
threading.stack_size(65536)
for _ in range(int(sys.argv[1])):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("up", flush=True)
sys.stdin.read()
"""
# What a shell does all day, and what a data loader does; prints CPU microseconds each, since time
# that passes is not to be trusted on a busy machine.
SPAWN = """
import os, resource, sys
count, program = int(sys.argv[1]), sys.argv[2]
def spent():
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both)
began = spent()
for _ in range(count):
    if program:
        pid = os.posix_spawn(program, [program], {})
    else:
        pid = os.fork()
        if not pid:
            os._exit(0)
    os.waitpid(pid, 0)
print((spent() - began) / count * 1e6)
"""


def cpu_seconds(action: Callable[[], object], times: int) -> float:
    """CPU of this process per call."""
    began = time.process_time()
    for _ in range(times):
        action()
    return (time.process_time() - began) / times


def poll_all(watches: list[LibraryWatch], subscribers: int) -> Callable[[], None]:
    """A round of polls, as the collector makes it."""
    subscriptions = [watches[0].subscribe(LIBRARY) for _ in range(subscribers)]

    def once() -> None:
        for each in subscriptions:
            each.poll()

    once()
    return once


def of_polls(rounds: int) -> None:
    """One subscriber, six that share, six that do not, and asking after each process."""
    shared = [LibraryWatch(hook=LinkerHook()) for _ in range(2)]
    one, six = poll_all(shared[:1], 1), poll_all(shared[1:], 6)
    apart = [LibraryWatch(hook=LinkerHook()) for _ in range(6)]
    each_alone = [poll_all([watch], 1) for watch in apart]
    pids = [process.pid for process in shared[0].subscribe(LIBRARY).poll().joined]
    actions: dict[str, Callable[[], object]] = {
        "one subscriber": one,
        "six subscribers, one watch": six,
        "six watches": lambda: [poll() for poll in each_alone],
        "asking after each process": lambda: [identify(pid) for pid in pids],
    }
    found: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            found[name].append(cpu_seconds(action, 10))
    print(f"CPU of one round of polls, {len(pids)} processes (median of {rounds}):")
    for name, values in found.items():
        print(f"  {name:<28} {statistics.median(values) * 1e6:9.1f} us")
    for watch in (*shared, *apart):
        watch.close()


def of_threads(pids: list[int], rounds: int) -> None:
    """What a flush asks after the threads of all processes."""
    tids = {pid: threads(pid) for pid in pids}
    actions: dict[str, Callable[[], object]] = {
        "a look at each thread": lambda: [is_thread(p, t) for p in pids for t in tids[p]],
        "one listing per process": lambda: [threads(pid) for pid in pids],
        "reading maps of each": lambda: [LibraryNames(LIBRARY).mapped_by(pid) for pid in pids],
    }
    print(f"CPU, {len(pids)} processes, {sum(map(len, tids.values()))} threads:")
    for name, action in actions.items():
        values = [cpu_seconds(action, 1) for _ in range(rounds)]
        print(f"  {name:<28} {statistics.median(values) * 1e3:9.2f} ms")


def spawn(program: str, count: int) -> float:
    """CPU microseconds of one process that comes and goes."""
    command = [sys.executable, "-S", "-c", SPAWN, str(count), program]
    return float(subprocess.run(command, capture_output=True, check=True).stdout)


def of_hook(rounds: int, count: int) -> None:
    """Processes that come and go, with the hook and without, in turns that change their order."""
    for what, program in (("fork+exec+exit of /bin/true", "/bin/true"), ("fork+exit", "")):
        found: dict[str, list[float]] = {"without": [], "with": []}
        for turn in range(rounds):
            for name in ("without", "with")[:: 1 if turn % 2 else -1]:
                if name == "without":
                    found[name].append(spawn(program, count))
                    continue
                watch = LibraryWatch(hook=LinkerHook())
                watch.subscribe(LIBRARY).poll()
                found[name].append(spawn(program, count))
                watch.close()
        pairs = zip(found["with"], found["without"], strict=True)
        ratios = sorted(on / off for on, off in pairs)
        low, high = ratios[len(ratios) // 4], ratios[-len(ratios) // 4]
        print(f"CPU of {what}, {rounds} turns of {count}:")
        for name, values in found.items():
            print(f"  {name:<28} {statistics.median(values):9.1f} us")
        middle = statistics.median(ratios)
        print(f"  ratio, median (quartiles)    {middle:.3f} ({low:.3f} to {high:.3f})")


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--threads", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--hook", action="store_true", help="only what the hook costs others")
    args = parser.parse_args()
    if args.hook:
        of_hook(args.rounds, args.count)
        return
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(args.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": ""},
        )
        for _ in range(args.processes)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        of_threads([child.pid for child in children], args.rounds)
        of_polls(args.rounds)
    finally:
        for child in children:
            child.kill()
            child.communicate()


if __name__ == "__main__":
    main()
