"""The files that a user means: a path, what processes map under a name, or one process's."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from probes.elf.image import Image
from probes.libraries.maps import PROC, LibraryNames, open_mapped
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probes.libraries.maps import FileKey, Mapped

_OF_PROCESS = re.compile(r"(\d+):(.+)")
EVERY_FILE = LibraryNames("*")


def open_files(name: str, proc: Path = PROC) -> Iterator[tuple[str, Image]]:
    """(what to call it, the open file) for each file that a name means; the caller closes.

    `name`: a path; `PID:NAME`, a file that this process maps; or the beginning of a file's name, or
    a glob over it, that any running process maps. Raises StallwatchError when there is none,
    ElfError when it cannot be probed.
    """
    found = _OF_PROCESS.fullmatch(name)
    if found:
        yield from _opened(_of_process(int(found[1]), found[2], proc))
    elif "/" in name:
        yield name, Image(name)
    else:
        mapped = _running(name, proc)
        if mapped:
            yield from _opened(mapped)
        elif Path(name).is_file():
            yield name, Image(name)
        else:
            near = near_names(name, proc)
            hint = f"did you mean {' or '.join(repr(each) for each in near)}?" if near else (
                "name a file by its path, with a '/'"
            )  # fmt: skip
            raise StallwatchError(f"no running process maps a file '{name}'\n    hint: {hint}")


def near_names(name: str, proc: Path = PROC) -> tuple[str, ...]:
    """Names of files that running processes map and that are near to a name, the nearest first."""
    return tuple(difflib.get_close_matches(name, _names(proc), n=3, cutoff=0.6))


def _opened(mapped: list[Mapped]) -> Iterator[tuple[str, Image]]:
    for each in mapped:
        yield f"{each.path} (as process {each.pid} has it)", open_mapped(each)


def _of_process(pid: int, name: str, proc: Path) -> list[Mapped]:
    try:
        all_of_them = EVERY_FILE.mapped_by(pid, proc)
    except OSError as error:
        raise StallwatchError(f"process {pid} cannot be looked at: {error.strerror}") from error
    names = LibraryNames(name)
    found = [each for each in all_of_them if names.match(each.name)]
    if not found:
        known = sorted({each.name for each in all_of_them})
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        shown = ", ".join(known[:12])
        hint = f"did you mean '{near[0]}'?" if near else f"it maps {shown}"
        raise StallwatchError(f"process {pid} maps no file '{name}'\n    hint: {hint}")
    return found


def _running(name: str, proc: Path) -> list[Mapped]:
    names = LibraryNames(name)
    found: dict[FileKey, Mapped] = {}
    for pid in Procfs(proc).pids():
        for each in _mapped_by(names, pid, proc):
            found.setdefault(each.key, each)
    return list(found.values())


def _names(proc: Path) -> list[str]:
    return sorted({each.name for pid in Procfs(proc).pids()
                   for each in _mapped_by(EVERY_FILE, pid, proc)})  # fmt: skip


def _mapped_by(names: LibraryNames, pid: int, proc: Path) -> tuple[Mapped, ...]:
    try:
        return names.mapped_by(pid, proc)
    except OSError:
        return ()
