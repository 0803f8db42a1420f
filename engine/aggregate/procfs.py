"""What /proc tells of one process. A process that is gone or not ours to read answers None.

Layouts: proc(5), `/proc/PID/stat`, `environ`, `cgroup`.
"""

from __future__ import annotations

import os
from pathlib import Path

from engine.readings import Process
from rules.slotted import dataclass

CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_ENDED = frozenset("XxZ")


@dataclass(frozen=True, slots=True)
class Stat:
    """Fields 2 (comm), 3 (state), 5 (pgrp), 20 (num_threads) and 22 (starttime, ticks after boot).

    `memory_bytes`: field 23 (vsize), 0 for a thread of the kernel and once it has let go of all.
    `image`: fields 26 to 28 and 48 to 51, where program and environment lie in memory. They change
    with each exec, by address randomisation if by nothing else. b"" where there is nothing to be
    seen: the main thread ended, or we may not look.
    """

    comm: str
    state: str
    process_group: int
    threads: int
    start_ticks: int
    memory_bytes: int = 0
    image: bytes = b""

    @property
    def ended(self) -> bool:
        """Whether it has no thread that runs; one whose main thread ended first has."""
        return self.state in _ENDED and self.threads <= 1


@dataclass(frozen=True, slots=True)
class Procfs:
    """A proc file system, by default the agent's own view of it."""

    root: Path = Path("/proc")

    def stat(self, pid: int) -> Stat | None:
        """The stat line of a process."""
        text = self._read(pid, "stat")
        if text is None:
            return None
        # comm may hold spaces and parentheses: it ends at the last one.
        opening, closing = text.find(b"("), text.rfind(b")")
        fields = text[closing + 2 :].split()
        if len(fields) < 20:  # cut off: it ended while it was read
            return None
        comm = text[opening + 1 : closing].decode("utf-8", "replace")
        return Stat(
            comm,
            fields[0].decode("ascii", "replace"),
            int(fields[2]),
            int(fields[17]),
            int(fields[19]),
            int(fields[20]) if len(fields) > 20 else 0,
            b" ".join((*fields[23:26], *fields[45:49])) if fields[25:26] != [b"0"] else b"",
        )

    def identify(self, pid: int) -> Process | None:
        """The process that has this pid now."""
        stat = self.stat(pid)
        return None if stat is None else Process(pid, stat.start_ticks)

    def alive(self, process: Process) -> bool:
        """Whether the very same process still runs; one that waits for its parent does not."""
        stat = self.stat(process.pid)
        return stat is not None and stat.start_ticks == process.start_ticks and not stat.ended

    def environ(self, pid: int) -> dict[str, str] | None:
        """The environment the process was started with, not what it set later."""
        text = self._read(pid, "environ")
        if text is None:
            return None
        entries = (entry.partition(b"=") for entry in text.split(b"\0") if b"=" in entry)
        return {
            name.decode("utf-8", "replace"): value.decode("utf-8", "replace")
            for name, _, value in entries
        }

    def cgroups(self, pid: int) -> tuple[str, ...]:
        """The paths in `/proc/PID/cgroup`, all hierarchies."""
        text = self._read(pid, "cgroup")
        if text is None:
            return ()
        lines = text.decode("utf-8", "replace").splitlines()
        return tuple(line.split(":", 2)[2] for line in lines if line.count(":") >= 2)

    def pids(self) -> list[int]:
        """Every process there is, the lowest pid first."""
        with os.scandir(self.root) as entries:
            return sorted(int(entry.name) for entry in entries if entry.name.isdigit())

    def boot_time_seconds(self) -> float:
        """When the machine booted, unix seconds (`btime` of /proc/stat)."""
        with (self.root / "stat").open("rb") as file:
            for line in file:
                if line.startswith(b"btime "):
                    return float(line.split()[1])
        return 0.0

    def _read(self, pid: int, name: str) -> bytes | None:
        try:
            # Not by Path: it takes twice the time, and this is read for every process.
            with open(f"{self.root}/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
                return file.read() or None
        except OSError:
            # Gone, or another user's: both are everyday answers here.
            return None
