"""The kernel's own TCP counters of a network namespace: /proc/PID/net/snmp and netstat.

Names: net/ipv4/proc.c. They count for the namespace as a whole, whoever was the cause.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LOSS_PROBES, RETRANSMITTED, SYN_RETRANSMITTED = "TCPLossProbes", "RetransSegs", "TCPSynRetrans"
# Those that tell of loss, of refused or broken connections, and of queues that were full.
TOLD = (
    "AttemptFails",
    "EstabResets",
    "OutRsts",
    RETRANSMITTED,
    "ListenDrops",
    "ListenOverflows",
    "TCPAbortOnTimeout",
    "TCPBacklogDrop",
    "TCPFastRetrans",
    "TCPLostRetransmit",
    "TCPRcvQDrop",
    "TCPRetransFail",
    SYN_RETRANSMITTED,
    "TCPTimeouts",
)


def parse(text: str, heading: str) -> dict[str, int]:
    """The pairs of lines `HEADING: name name` and `HEADING: 1 2` of one of the files."""
    found: dict[str, int] = {}
    lines = [line.split() for line in text.splitlines() if line.startswith(f"{heading}:")]
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        found.update((name, int(value)) for name, value in zip(names[1:], values[1:], strict=False))
    return found


def read(process: int | str) -> dict[str, int] | None:
    """The counters of a process's network namespace; None when it is gone or closed to us."""
    folder = Path(f"/proc/{process}/net")
    try:
        snmp = (folder / "snmp").read_text(encoding="ascii")
        netstat = (folder / "netstat").read_text(encoding="ascii")
    except OSError:
        return None
    return parse(snmp, "Tcp") | parse(netstat, "TcpExt")


class Namespaces:
    """What grew in each namespace. One that was not there when the agent started counts from 0."""

    def __init__(self) -> None:
        self._last: dict[int, Mapping[str, int]] = {}

    def baseline(self, namespace: int, values: Mapping[str, int]) -> None:
        """The namespace is older than the agent."""
        self._last[namespace] = values

    def grow(self, namespace: int, values: Mapping[str, int]) -> dict[str, int]:
        """By how much each counter grew since the last call."""
        before = self._last.get(namespace, {})
        self._last[namespace] = values
        return {name: max(0, value - before.get(name, 0)) for name, value in values.items()}

    def keep(self, present: set[int]) -> None:
        """Forget namespaces that no longer exist."""
        self._last = {inode: last for inode, last in self._last.items() if inode in present}

    def __len__(self) -> int:
        return len(self._last)
