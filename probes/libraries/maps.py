"""The libraries of one process, as /proc/PID/maps tells (proc(5))."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from engine.aggregate.procfs import Procfs
from engine.readings import Process
from probes.elf.image import ElfError, Image

PROC = Path("/proc")
_ENDED = frozenset("XxZ")
# `7f12-7f34 r-xp 00001000 08:01 1234   /usr/lib/libc.so.6`
MAPS_LINE = rb"^([0-9a-f]+-[0-9a-f]+) \S+ \S+ (\S+) (\d+) +(/[^\n]*/(?:%s)[^/\n]*)$"


@dataclass(frozen=True, slots=True, order=True)
class FileKey:
    """A file as maps shows it: device "major:minor" in hex, and inode.

    Two overlay mounts may show one file of a shared image layer under two keys; whoever attaches
    by key must bear being attached twice.
    """

    device: str
    inode: int


@dataclass(frozen=True, slots=True)
class Mapped:
    """A library in a process: `path` as that process names it, `region` START-END in hex."""

    key: FileKey
    path: str
    region: str
    pid: int

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.path.rpartition("/")[2]


class LibraryNames:
    """Which file names are of interest, by their beginning (`libtorch_cpu.so`, `ld-linux`)."""

    def __init__(self, *prefixes: str) -> None:
        self.prefixes = prefixes
        escaped = b"|".join(re.escape(prefix).encode() for prefix in prefixes)
        self._line = re.compile(MAPS_LINE % escaped, re.MULTILINE)

    def mapped_by(self, pid: int, proc: Path = PROC) -> tuple[Mapped, ...]:
        """What process `pid` maps under these names, each file once.

        Raises OSError: ProcessLookupError or FileNotFoundError when it is gone, PermissionError
        when it may not be read.
        """
        found: dict[FileKey, Mapped] = {}
        for region, device, inode, path in self._line.findall((proc / f"{pid}/maps").read_bytes()):
            key = FileKey(device.decode(), int(inode))
            name = path.decode("utf-8", "surrogateescape")
            found.setdefault(key, Mapped(key, name, region.decode(), pid))
        return tuple(found.values())


def identify(pid: int, proc: Path = PROC) -> Process | None:
    """The process that has this pid now; None when none has or it may not be seen."""
    stat = Procfs(proc).stat(pid)
    # A zombie maps nothing any more and will never take another step.
    if stat is None or stat.state in _ENDED:
        return None
    return Process(pid, stat.start_ticks)


def is_thread(pid: int, tid: int, proc: Path = PROC) -> bool:
    """Whether process `pid` has a thread `tid`."""
    return (proc / f"{pid}/task/{tid}").exists()


def open_mapped(mapped: Mapped, proc: Path = PROC) -> Image:
    """Open a library that a process maps, in that process' own mount namespace.

    /proc/PID/map_files reaches the very inode, even when its name now belongs to another file;
    where that is not permitted, the path is taken from the process' root. Raises ElfError.
    """
    exact = proc / f"{mapped.pid}/map_files/{mapped.region}"
    try:
        return Image(str(exact))
    except ElfError:
        return Image(f"{proc}/{mapped.pid}/root{mapped.path}")
