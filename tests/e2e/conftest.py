"""Real networks on this machine: two network namespaces joined by a veth pair."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator


# `make e2e` sets it as root: there a skip would hide that the real thing was not tried.
STRICT = "STALLWATCH_STRICT" in os.environ
# What no set-up can mend: a checkout in a folder that other users may not enter, for one.
EXCUSED = "cannot be tried here"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, None]:
    """On a machine that can run the tests, a skip is a failure."""
    outcome = yield
    report = outcome.get_result()
    if not (STRICT and report.skipped and isinstance(report.longrepr, tuple)):
        return
    reason = str(report.longrepr[2])
    if EXCUSED not in reason:
        report.outcome = "failed"
        report.longrepr = f"skipped where it must run: {reason}"


def _run(*command: str, text: str | None = None) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


@dataclass
class NetnsPair:
    """Namespaces `names` with `addresses` (and IPv6 ones), one veth end `devices` in each."""

    names: tuple[str, str]
    addresses: tuple[str, str] = ("10.98.0.1", "10.98.0.2")
    addresses_v6: tuple[str, str] = ("fd98::1", "fd98::2")
    devices: tuple[str, str] = ("veth0", "veth0")
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(self, side: int, *command: str, text: str | None = None) -> str:
        """Run a command to its end inside one side; its output."""
        return _run("ip", "netns", "exec", self.names[side], *command, text=text)

    def popen(self, side: int, *command: str, **options: Any) -> subprocess.Popen[str]:
        """Start a process inside one side; it is killed when the fixture ends."""
        options.setdefault("stdout", subprocess.PIPE)
        # `ip netns exec` replaces itself by the command: the pid is the command's own.
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.names[side], *command], text=True, **options
        )
        self.processes.append(process)
        return process

    def quiet(self) -> None:
        """No tail-loss probes and no BBR: a clean run then has no retransmit at all."""
        for side in (0, 1):
            self.run(side, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno")
            self.run(side, "sysctl", "-qw", "net.ipv4.tcp_early_retrans=0")

    def segment(self, gso_max_segs: int) -> None:
        """Limit how many segments one skb may hold, at both ends."""
        for side in (0, 1):
            device = self.devices[side]
            self.run(side, "ip", "link", "set", device, "gso_max_segs", str(gso_max_segs))

    def lose(self, per_mille: int, side: int = 1) -> None:
        """Drop that many of 1,000 TCP packets that arrive at one side."""
        table = (
            "add table inet stallwatch_loss\n"
            "add chain inet stallwatch_loss in { type filter hook input priority 0; }\n"
            "add rule inet stallwatch_loss in meta l4proto tcp numgen random mod 1000"
            f" < {per_mille} drop\n"
        )
        self.run(side, "nft", "-f", "-", text=table)

    def heal(self, side: int = 1) -> None:
        """Lose nothing any more."""
        self.run(side, "nft", "delete", "table", "inet", "stallwatch_loss")

    def counter(self, side: int, name: str) -> int:
        """A counter of `nstat`, such as TcpRetransSegs, since the namespace was made."""
        table = json.loads(self.run(side, "nstat", "-asz", "--json"))["kernel"]
        return int(table.get(name, 0))


def _make(name: str) -> NetnsPair:
    pair = NetnsPair((f"sw-{name}-{os.getpid()}-a", f"sw-{name}-{os.getpid()}-b"))
    try:
        for own in pair.names:
            _run("ip", "netns", "add", own)
        first, second = pair.names
        _run(*f"ip -n {first} link add veth0 type veth peer name veth0 netns {second}".split())
        for side, own in enumerate(pair.names):
            _run("ip", "-n", own, "address", "add", f"{pair.addresses[side]}/24", "dev", "veth0")
            v6 = f"{pair.addresses_v6[side]}/64"
            _run("ip", "-n", own, "address", "add", v6, "dev", "veth0", "nodad")
            _run("ip", "-n", own, "link", "set", "lo", "up")
            _run("ip", "-n", own, "link", "set", "veth0", "up")
    except BaseException:
        _remove(pair)
        raise
    return pair


def _remove(pair: NetnsPair) -> None:
    for process in pair.processes:
        process.kill()
        process.wait()
    for own in pair.names:
        subprocess.run(["ip", "netns", "delete", own], check=False, capture_output=True)


def _pairs() -> Iterator[Callable[[str], NetnsPair]]:
    """Make pairs by name; all of it is removed afterwards."""
    pairs: list[NetnsPair] = []

    def make(name: str) -> NetnsPair:
        pairs.append(_make(name))
        return pairs[-1]

    yield make
    for pair in pairs:
        _remove(pair)


make_netns_pair = pytest.fixture(_pairs)
make_lasting_netns_pair = pytest.fixture(_pairs, scope="module")


@pytest.fixture
def netns_pair(make_netns_pair: Callable[[str], NetnsPair]) -> NetnsPair:
    """One pair, quiet."""
    pair = make_netns_pair("pair")
    pair.quiet()
    return pair


TALKER = Path(__file__).with_name("talker.py")


@pytest.fixture
def talk() -> Callable[..., tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    """Start a listener on side 1 and a connecting client on side 0, each sending `megabytes`."""

    def start(
        pair: NetnsPair,
        megabytes: int,
        *,
        v6: bool = False,
        port: int = 7000,
        hold: bool = False,
    ) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
        address = (pair.addresses_v6 if v6 else pair.addresses)[1]
        common = (sys.executable, str(TALKER), address, str(port), str(megabytes))
        more = ("hold",) if hold else ()
        server = pair.popen(1, *common, "listen", *more, stdin=subprocess.PIPE)
        assert server.stdout is not None
        assert server.stdout.readline() == "listening\n"
        client = pair.popen(0, *common, "connect", *more, stdin=subprocess.PIPE)
        return client, server

    return start
