"""Programs that have CUDA's runtime linked into them, as nvcc does unless it is told otherwise.

They map the driver and no libcudart, so that no probe finds their runtime by a library's name. With
a symbol table the program itself can be probed; stripped, it shows at the driver only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from probes.cuda.calls import DRIVER, RUNTIME
from probes.diagnosis.finding import Finding
from probes.elf.image import ElfError, Image
from probes.functions.table import SymbolTable
from probes.libraries.maps import LibraryNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.aggregate.procfs import Procfs
    from probes.libraries.maps import Mapped

SUBJECT = "CUDA runtime"
# Any program of CUDA that does something launches or allocates.
NAMES = ("cudaLaunchKernel", "cudaMalloc")
MEND = (
    "probe the program by its file name, library: {name} (probes/custom/README.md), or link it "
    "with -cudart shared"
)
MEND_STRIPPED = "link it with -cudart shared, or keep its symbols (no strip, no -s)"


class LinkedRuntimes:
    """The programs met on a walk over processes, each looked into once."""

    def __init__(self) -> None:
        self._driver, self._runtime = LibraryNames(DRIVER), LibraryNames(RUNTIME)
        # By program, whether it has symbols; None: the runtime is not in it.
        self._programs: dict[str, bool | None] = {}

    def look(self, pid: int, mapped: Iterable[Mapped], procfs: Procfs) -> None:
        """A process that maps these."""
        names = [each.name for each in mapped]
        if any(map(self._runtime.match, names)) or not any(map(self._driver.match, names)):
            return
        exe = procfs.root / f"{pid}/exe"
        try:
            path = _shown(str(exe.readlink()))
            if path not in self._programs:
                self._programs[path] = _holds(str(exe))
        except (OSError, ElfError):
            return  # it has ended, or is closed to us

    def findings(self) -> Iterator[Finding]:
        """One for each program."""
        for path, symbols in sorted(self._programs.items()):
            if symbols:
                detail = f"{path} has it linked into it: its calls show at the driver only"
                mend = MEND.format(name=path.rpartition("/")[2])
                yield Finding(SUBJECT, "degraded", detail, mend)
            elif symbols is False:
                detail = (
                    f"{path} uses the driver and is stripped: a runtime linked into it is hidden"
                )
                yield Finding(SUBJECT, "degraded", detail, MEND_STRIPPED)


def _shown(path: str) -> str:
    """What a terminal can be given of a program's name, which is whatever its owner wanted."""
    whole = path.removesuffix(" (deleted)")
    return "".join(each if each.isprintable() else "?" for each in whole)


def _holds(path: str) -> bool | None:
    """Whether the runtime is in a program with symbols; False: it has none to tell by."""
    with Image(path) as image:
        if ".symtab" not in image.sections:
            return False
        table = SymbolTable(image, ".symtab")
        found = (each for name in NAMES for each in table.exact(name))
        return True if any(each.kind == "function" for each in found) else None
