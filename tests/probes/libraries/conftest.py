"""A /proc made of files, with a clock and a hook that a test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from probes.libraries.hook import Heard
from probes.libraries.watch import LibraryWatch

if TYPE_CHECKING:
    from pathlib import Path

    from probes.libraries.limits import Limits
    from probes.libraries.maps import FileKey, Mapped


class Machine:
    """A /proc on disk, a clock, and a hook that says what it is told to."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.now = 100.0
        self.named: set[int] = set()
        self.executed: set[int] = set()
        self.forked: dict[int, int] = {}
        self.followed: set[int] = set()
        self.lost = False
        self.linkers: set[FileKey] = set()
        self.deaf = ""
        self.drained = 0
        self.closed = 0

    def runs(self, pid: int, libraries: list[tuple[str, int]], start: int = 1) -> None:
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        stat = f"{pid} (a (strange) name) S 1 " + "0 " * 17 + f"{start} 0 0\n"
        (folder / "stat").write_text(stat)
        lines = ["00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus daemon"]
        for index, (path, inode) in enumerate(libraries):
            for part in range(2):
                region = f"7f{index}{part}0000-7f{index}{part}ffff"
                lines.append(f"{region} r-xp 00000000 fe:00 {inode}      {path}")
        (folder / "maps").write_text(
            "\n".join([*lines, "7ffd0000-7ffe0000 rw-p 0 00:00 0 [stack]"])
        )

    def run_alike(self, pids: range, libraries: list[tuple[str, int]]) -> None:
        """Many at once, which share the file of one."""
        first, *others = pids
        self.runs(first, libraries)
        for pid in others:
            (self.proc / str(pid)).mkdir()
            for name in ("stat", "maps"):
                (self.proc / f"{pid}/{name}").hardlink_to(self.proc / f"{first}/{name}")

    def ends(self, pid: int) -> None:
        for name in ("stat", "maps"):
            (self.proc / str(pid) / name).unlink()
        (self.proc / str(pid)).rmdir()

    def add(self, linker: Mapped) -> bool:
        fresh = linker.key not in self.linkers
        self.linkers.add(linker.key)
        return fresh

    def keep_only(self, linkers: set[FileKey]) -> None:
        self.linkers &= linkers

    def follow(self, pid: int) -> None:
        self.followed.add(pid)

    def unfollow(self, pid: int) -> None:
        self.followed.remove(pid)

    def drain(self) -> Heard:
        self.drained += 1
        heard = Heard(self.named | self.executed, self.executed, self.forked, self.lost)
        self.named, self.executed, self.forked, self.lost = set(), set(), {}, False
        return heard

    def close(self) -> None:
        self.closed += 1

    def shared(self, *, hooked: bool = True, limits: Limits | None = None) -> LibraryWatch:
        hook = self if hooked else None
        return LibraryWatch(hook=hook, proc=self.proc, clock=lambda: self.now, limits=limits)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
