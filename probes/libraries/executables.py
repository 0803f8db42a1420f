"""Programs that no dynamic linker loads: what they are linked with is inside of them.

Such a program maps no library, so no probe that asks for one finds it. If it has a symbol table its
functions can be probed under the program's own name; if it was stripped they cannot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from probes.elf.image import ElfError
from probes.libraries.maps import PROC, FileKey, Mapped, open_mapped

if TYPE_CHECKING:
    from pathlib import Path

Kind: TypeAlias = Literal["static", "stripped", "foreign", "unreadable"]
KINDS: tuple[Kind, ...] = ("static", "stripped", "foreign", "unreadable")
EXAMPLES = 3

# The program is mapped first: lowest in memory, whatever it is.
_FIRST_FILE = re.compile(rb"^([0-9a-f]+-[0-9a-f]+) \S+ \S+ (\S+) (\d+) +(/[^\n]*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Executable:
    """A program's file. `kind`: static (it has a symbol table), stripped (it has none).

    foreign: a dynamic linker loads it that is not one by name; unreadable: no ELF file of 64 bits,
    or closed to us.
    """

    path: str
    kind: Kind


class Executables:
    """Remembers each file, looked into once."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._left = 0
        self._files: dict[FileKey, Executable] = {}

    def begin(self, looks: int, most: int) -> None:
        """A poll begins: so many files may be looked into again, and so many remembered in all."""
        self._left = min(looks, most - len(self._files))

    def note(self, pid: int, maps: bytes) -> FileKey | None:
        """A process maps no dynamic linker: what it runs, None where it maps nothing."""
        first = _FIRST_FILE.search(maps)
        if first is None:
            return None
        region, device, inode, path = first.groups()
        key = FileKey(device.decode(), int(inode))
        if key not in self._files and self._left > 0:
            self._left -= 1
            name = path.decode("utf-8", "surrogateescape")
            kind = self._look_into(Mapped(key, name, region.decode(), pid))
            self._files[key] = Executable(name, kind)
        return key

    def keep_only(self, keys: set[FileKey]) -> None:
        """Forget those that nobody runs any more."""
        for key in self._files.keys() - keys:
            del self._files[key]

    def count(self, kind: Kind) -> int:
        """How many files of a kind are running."""
        return sum(each.kind == kind for each in self._files.values())

    def examples(self, kind: Kind) -> list[str]:
        """The paths of a few, as their processes name them."""
        return sorted(each.path for each in self._files.values() if each.kind == kind)[:EXAMPLES]

    def __str__(self) -> str:
        """`static: 2 (/bin/a, /bin/b), stripped: 1 (/bin/c)`; "" where there is none."""
        parts = []
        for kind in KINDS:
            count, examples = self.count(kind), self.examples(kind)
            if count:
                more = ", ..." if count > len(examples) else ""
                parts.append(f"{kind}: {count} ({', '.join(examples)}{more})")
        return ", ".join(parts)

    def _look_into(self, mapped: Mapped) -> Kind:
        try:
            with open_mapped(mapped, self._proc) as image:
                if ".interp" in image.sections:
                    return "foreign"
                return "static" if ".symtab" in image.sections else "stripped"
        except ElfError:
            return "unreadable"
