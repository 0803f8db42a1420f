"""What the agent itself takes with 64 processes watched, beside its peers: `make bench-agent`.

Peers that a user would run, which only take in: prometheus-node-exporter, scraped every 10 s, and a
bcc tool that tells retransmits. All run at the same time beside the same processes; their CPU time
and memory are the kernel's own account. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from bench.traps.load import Load, build
from probes.overhead.agent import TICKS, TrialAgent, free_port
from probes.overhead.errors import OverheadError
from probes.overhead.table import machine

ROOT = Path(__file__).resolve().parents[2]
KERNEL_STUBS = ROOT / "probes" / "bpf" / "kernel"
SCRAPE_SECONDS = 10.0
SETTLE_SECONDS = 30.0
NAMES = {
    "exporter": "prometheus-node-exporter, scraped every 10 s",
    "tool": "a bcc tool (retransmits)",
    "agent": "stallwatch, all probes and the shipped rules",
}


@dataclass
class Peer:
    """A process that is measured. `seconds`: of CPU time; bytes resident, and of these its own."""

    name: str
    pid: int
    seconds: float = 0.0
    resident: int = 0
    private: int = 0

    def cpu_seconds(self) -> float:
        """User and system time of all threads and of ended children (proc(5), fields 14 to 17)."""
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
        return sum(int(each) for each in stat.split()[11:15]) / TICKS

    def read_memory(self) -> None:
        """VmRSS, and what no other process maps (smaps_rollup)."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
        self.resident = max(self.resident, sizes["Rss"] * 1024)
        self.private = max(self.private, (sizes["Private_Clean"] + sizes["Private_Dirty"]) * 1024)


def arguments() -> argparse.Namespace:
    """The options, described in --help."""
    parser = argparse.ArgumentParser(prog="bench.agent", description=__doc__)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--calling", type=int, default=16, help="of these, so many make calls")
    parser.add_argument("--rate", type=float, default=50.0, help="launches a second of each")
    parser.add_argument("--seconds", type=float, default=120.0)
    return parser.parse_args()


def start_exporter(folder: Path) -> tuple[subprocess.Popen[bytes], str] | None:
    """node_exporter and its URL; None where it is not installed."""
    program = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
    if program is None:
        print("no node_exporter: apt-get install prometheus-node-exporter", file=sys.stderr)
        return None
    listen = f"127.0.0.1:{free_port()}"
    with (folder / "exporter.log").open("ab") as log:
        command = [program, f"--web.listen-address={listen}"]
        return subprocess.Popen(command, stdout=log, stderr=log), f"http://{listen}/metrics"


def start_tool(folder: Path) -> subprocess.Popen[str]:
    """The bcc tool, attached."""
    script = Path(__file__).with_name("retransmits.py")
    with (folder / "tool.log").open("a", encoding="utf-8") as log:
        tool = subprocess.Popen(
            [sys.executable, str(script)],
            text=True,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "BCC_KERNEL_SOURCE": str(KERNEL_STUBS)},
        )
    if tool.stdout is None or tool.stdout.readline() != "ready\n":
        raise OverheadError(f"agent: the bcc tool did not start: {(folder / 'tool.log')}")
    return tool


def watch(peers: list[Peer], seconds: float, scrape: str) -> None:
    """Let the time pass; read what each used in it."""
    before = [peer.cpu_seconds() for peer in peers]
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if scrape:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(scrape, timeout=10).read()
        for peer in peers:
            peer.read_memory()
        time.sleep(min(SCRAPE_SECONDS, max(0.0, left)))
    for peer, spent in zip(peers, before, strict=True):
        peer.seconds = peer.cpu_seconds() - spent


def measure(options: argparse.Namespace, folder: Path) -> list[Peer]:
    """Start everybody, watch them."""
    lasting = options.seconds + 10 * SETTLE_SECONDS
    job = build(folder)
    agent = TrialAgent(folder)
    loads: list[Load] = []
    ended: list[subprocess.Popen[bytes] | subprocess.Popen[str]] = []
    try:
        for number in range(options.processes):
            calling = number < options.calling
            loads.append(
                Load(
                    job,
                    seconds=lasting if calling else 0,
                    rate=options.rate,
                    syncs=options.rate / 10,
                    collectives=5,
                    work=1_000,
                    linger=0 if calling else int(lasting),
                    task=f"load-{number}",
                )
            )
        agent.start()
        tool = start_tool(folder)
        ended.append(tool)
        peers = [Peer(NAMES["agent"], agent.pid), Peer(NAMES["tool"], tool.pid)]
        scrape = ""
        exporter = start_exporter(folder)
        if exporter is not None:
            ended.append(exporter[0])
            peers.append(Peer(NAMES["exporter"], exporter[0].pid))
            scrape = exporter[1]
        time.sleep(SETTLE_SECONDS)
        watch(peers, options.seconds, scrape)
        tasks = agent.query("count(count by (task_id) (cuda_calls_total))")
        print(f"processes watched: {sum(value for _, value in tasks):.0f}")
        print(f"probes: {', '.join(agent.attached)}")
        return peers
    finally:
        for process in ended:
            process.kill()
            process.communicate()
        agent.stop()
        for load in loads:
            load.end()


def main() -> int:
    """Measure and print; 2 when nothing could be measured."""
    options = arguments()
    if os.geteuid() != 0:
        print("agent: probes need root; mend: sudo make bench-agent", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"machine: {machine()}")
    print(f"about {(options.seconds + SETTLE_SECONDS + 30) / 60:.0f} minutes", flush=True)
    with tempfile.TemporaryDirectory(prefix="stallwatch-agent-") as folder:
        try:
            peers = measure(options, Path(folder))
        except OverheadError as error:
            print(error, file=sys.stderr)
            return 2
    print("\n| | CPU of one core | resident | of it its own |\n|---|---|---|---|")
    for peer in peers:
        share = f"{100 * peer.seconds / options.seconds:.2f} %"
        mib = f"{peer.resident / 2**20:.0f} MiB | {peer.private / 2**20:.0f} MiB"
        print(f"| {peer.name} | {share} | {mib} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
