"""Two network namespaces joined by a veth pair, and packet loss between them."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probes.demo.errors import NotHereError
from probes.demo.owner import is_stale, own_name

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESSES = ("10.98.0.1", "10.98.0.2")
DEVICE = "demo0"
TABLE = "stallwatch_demo"
TOOLS = {"ip": "iproute2", "sysctl": "procps", "nft": "nftables"}


@dataclass(frozen=True, slots=True)
class Network:
    """The namespaces' names; side 0 has `ADDRESSES[0]`, side 1 `ADDRESSES[1]`."""

    names: tuple[str, str]

    def command(self, side: int, *command: str) -> list[str]:
        """A command line that runs inside one side; its pid is the command's own."""
        return ["ip", "netns", "exec", self.names[side], *command]

    def lose(self, per_mille: int) -> None:
        """Drop that many of 1,000 TCP packets that arrive at either side, chosen at random."""
        table = (
            f"add table inet {TABLE}\n"
            f"add chain inet {TABLE} in {{ type filter hook input priority 0; }}\n"
            f"add rule inet {TABLE} in meta l4proto tcp numgen random mod 1000 < {per_mille} drop\n"
        )
        for side in (0, 1):
            _run(*self.command(side, "nft", "-f", "-"), text=table)

    def heal(self) -> None:
        """Lose nothing any more."""
        for side in (0, 1):
            _run(*self.command(side, "nft", "delete", "table", "inet", TABLE))


def require_tools() -> None:
    """Raises NotHereError for programs that are not installed."""
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if missing:
        raise NotHereError(
            f"{' and '.join(missing)} not installed", f"apt-get install {' '.join(missing)}"
        )


@contextmanager
def network() -> Iterator[Network]:
    """Make the pair, quiet: a clean run retransmits nothing. All of it goes at the end.

    Raises NotHereError where no namespace or veth pair can be made.
    """
    remove_stale()
    pair = Network((own_name("a"), own_name("b")))
    try:
        _make(pair)
        yield pair
    finally:
        for name in pair.names:
            _remove(name)


def remove_stale() -> list[str]:
    """Remove the namespaces of demos that were killed; their names."""
    listed = json.loads(_run("ip", "-json", "netns", "list") or "[]")
    stale = [entry["name"] for entry in listed if is_stale(entry["name"])]
    for name in stale:
        _remove(name)
    return stale


def _make(pair: Network) -> None:
    first, second = pair.names
    for name in pair.names:
        _run("ip", "netns", "add", name)
    ends = ("type", "veth", "peer", "name", DEVICE, "netns", second)
    _run("ip", "-n", first, "link", "add", DEVICE, *ends)
    for side, name in enumerate(pair.names):
        _run("ip", "-n", name, "address", "add", f"{ADDRESSES[side]}/24", "dev", DEVICE)
        _run("ip", "-n", name, "link", "set", "lo", "up")
        _run("ip", "-n", name, "link", "set", DEVICE, "up")
        # No tail-loss probes, no BBR: else a clean run retransmits dozens of times a second.
        for setting in ("tcp_congestion_control=reno", "tcp_early_retrans=0"):
            _run(*pair.command(side, "sysctl", "-qw", f"net.ipv4.{setting}"))


def _remove(name: str) -> None:
    # The veth pair and the nft table go with the namespace. One that was never made is no fault.
    subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _run(*command: str, text: str | None = None) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotHereError(
            f"'{' '.join(command)}' failed: {done.stderr.strip()}",
            "in a container, CAP_SYS_ADMIN and CAP_NET_ADMIN are needed; else try the host",
        )
    return done.stdout
