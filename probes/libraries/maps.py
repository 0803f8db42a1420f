"""The libraries of one process, as /proc/PID/maps tells (proc(5))."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from engine.aggregate.procfs import Procfs
from engine.readings import Process
from probes.elf.image import ElfError, Image

PROC = Path("/proc")
# `7f12-7f34 r-xp 00001000 08:01 1234   /usr/lib/libc.so.6`
# Only what is executed: a debugger maps the file of the same name that holds symbols, and a
# breakpoint would change what it reads.
MAPS_LINE = rb"^([0-9a-f]+-[0-9a-f]+) \S\Sx\S \S+ (\S+) (\d+) +(/(?:[^\n]*/)?(?:%s))$"
# What the kernel appends to the name of a file that was replaced or removed.
DELETED = " (deleted)"
_WILDCARDS = frozenset("*?[")


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
    """Which file names are of interest: beginnings (`libtorch_cpu.so`, `ld-linux`) and globs.

    A name with `*`, `?` or `[` is a glob over the whole name (`libnccl*.so*`), any other matches
    what begins with it. Folders do not count, and neither does the mark of a deleted file.
    """

    def __init__(self, *names: str) -> None:
        self.names = names
        pattern = b"|".join(_pattern(name).encode("utf-8", "surrogateescape") for name in names)
        # No name: a pattern that nothing matches.
        self._line = re.compile(MAPS_LINE % (pattern or b"(?!)"), re.MULTILINE)
        self._name = re.compile(pattern or b"(?!)")

    def match(self, name: str) -> bool:
        """Whether a file's own name is one of them."""
        return self._name.fullmatch(name.encode("utf-8", "surrogateescape")) is not None

    def mapped_by(self, pid: int, proc: Path = PROC) -> tuple[Mapped, ...]:
        """What process `pid` maps under these names, each file once.

        Raises OSError: ProcessLookupError or FileNotFoundError when it is gone, PermissionError
        when it may not be read.
        """
        return self.mapped_in(read_maps(pid, proc), pid)

    def mapped_in(self, maps: bytes, pid: int) -> tuple[Mapped, ...]:
        """The same from the text of a process' maps."""
        found: dict[FileKey, Mapped] = {}
        for region, device, inode, path in self._line.findall(maps):
            key = FileKey(device.decode(), int(inode))
            name = path.decode("utf-8", "surrogateescape")
            found.setdefault(key, Mapped(key, name, region.decode(), pid))
        return tuple(found.values())


def _pattern(name: str) -> str:
    if not _WILDCARDS & set(name):
        return re.escape(name) + r"[^/\n]*"
    out, rest = "", name
    while rest:
        first, rest = rest[0], rest[1:]
        closing = rest.find("]", 1)
        if first == "*":
            out += r"[^/\n]*"
        elif first == "?":
            out += r"[^/\n]"
        elif first == "[" and closing > 0:
            inside, rest = rest[:closing].replace("\\", r"\\"), rest[closing + 1 :]
            out += f"[^/\n{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]"
        else:
            out += re.escape(first)
    return f"{out}(?:{re.escape(DELETED)})?"


def read_maps(pid: int, proc: Path = PROC) -> bytes:
    """The mappings of a process, empty for a thread of the kernel. Raises OSError."""
    text = _read(f"{proc}/{pid}/maps")
    if text:
        return text
    # A main thread that ended before the others maps nothing; they still map everything.
    for tid in sorted(threads(pid, proc) - {pid}):
        with contextlib.suppress(OSError):
            text = _read(f"{proc}/{pid}/task/{tid}/maps")
            if text:
                return text
    return b""


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a third of the time, and often
        return file.read()


def identify(pid: int, proc: Path = PROC) -> Process | None:
    """The process that has this pid now; None when none has or it may not be seen."""
    stat = Procfs(proc).stat(pid)
    # A process that ended and waits for its parent maps nothing and will never take another step.
    if stat is None or stat.ended:
        return None
    return Process(pid, stat.start_ticks)


def threads(pid: int, proc: Path = PROC) -> frozenset[int]:
    """The thread ids of a process, empty when it is gone."""
    try:
        return frozenset(map(int, os.listdir(f"{proc}/{pid}/task")))  # noqa: PTH208 - as above
    except OSError:
        return frozenset()


def is_thread(pid: int, tid: int, proc: Path = PROC) -> bool:
    """Whether process `pid` has a thread `tid`. For many threads ask `threads` once."""
    return os.path.exists(f"{proc}/{pid}/task/{tid}")  # noqa: PTH110 - as above


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
