"""Which processes hold an RDMA device: who has /dev/infiniband/uverbsN open.

The device's number is compared, not its path: a container may have the node under any name.
/sys/class/infiniband_verbs/uverbsN/dev is MAJOR:MINOR, `ibdev` the device's name.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from probes.rdma.sysfs import SYSFS
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.readings import Process

MARK = "uverbs"


@dataclass(slots=True)
class Holders:
    """Looks through open files, a bounded number at a time; what it knows it only looks after.

    `links_limit`: file descriptors looked at in one call. Where a node has more, a call goes on
    where the last one ended, so that a new holder is found some calls later. `unreadable`:
    processes whose files were closed to us in the last pass.
    """

    root: Path = SYSFS
    procfs: Procfs = field(default_factory=Procfs)
    links_limit: int = 20_000
    unreadable: int = 0
    _holding: dict[Process, dict[str, str]] = field(default_factory=dict)
    _cursor: int = 0
    _refused: int = 0

    def look(self) -> dict[str, set[Process]]:
        """Holders by device."""
        numbers = self._numbers()
        if not numbers:
            self._holding.clear()
            return {}
        self._look_after(numbers)
        self._search(numbers)
        found: dict[str, set[Process]] = {}
        for process, held in self._holding.items():
            for device in held:
                found.setdefault(device, set()).add(process)
        return found

    def _numbers(self) -> dict[int, str]:
        """Devices by number."""
        found: dict[int, str] = {}
        try:
            entries = sorted((self.root / "infiniband_verbs").iterdir())
        except OSError:
            return {}
        for entry in entries:
            try:
                major, minor = (entry / "dev").read_text(encoding="ascii").split(":")
                found[os.makedev(int(major), int(minor))] = (
                    (entry / "ibdev").read_text(encoding="ascii").strip()
                )
            except (OSError, ValueError):  # noqa: PERF203 - each device on its own
                continue  # `abi_version` is no device; a real one may go while it is read
        return found

    def _look_after(self, numbers: dict[int, str]) -> None:
        for process, held in list(self._holding.items()):
            kept = {
                device: path for device, path in held.items() if _device(path, numbers) == device
            }
            if kept and self.procfs.alive(process):
                self._holding[process] = kept
            else:
                del self._holding[process]

    def _search(self, numbers: dict[int, str]) -> None:
        left = self.links_limit
        pids = self.procfs.pids()
        ahead = [pid for pid in pids if pid > self._cursor]
        for pid in ahead:
            held, looked = self._files_of(pid, numbers)
            left -= looked
            process = self.procfs.identify(pid) if held else None
            if process is not None:
                self._holding[process] = held
            self._cursor = pid
            if left <= 0:
                return
        self._cursor = 0
        self.unreadable, self._refused = self._refused, 0

    def _files_of(self, pid: int, numbers: dict[int, str]) -> tuple[dict[str, str], int]:
        """(device: path below /proc, number of links looked at)."""
        held: dict[str, str] = {}
        looked = 1
        try:
            for path, target in _links(f"{self.procfs.root}/{pid}/fd"):
                looked += 1
                device = _device(path, numbers) if MARK in target else None
                if device is not None:
                    held[device] = path
        except PermissionError:
            self._refused += 1
        except OSError:
            return {}, looked  # it has ended
        return held, looked


def _links(folder: str) -> Iterator[tuple[str, str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                yield entry.path, os.readlink(entry.path)  # noqa: PTH115 - thousands in a pass
            except FileNotFoundError:  # noqa: PERF203 - each descriptor on its own
                continue  # closed meanwhile


def _device(path: str, numbers: dict[int, str]) -> str | None:
    try:
        return numbers.get(os.stat(path).st_rdev)  # noqa: PTH116 - a string, not a Path
    except OSError:
        return None
