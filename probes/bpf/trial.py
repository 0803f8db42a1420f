"""Whether uprobes are allowed here, found out by attaching one where nobody comes by."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING

from probes.bpf import compiler
from probes.bpf.errors import UnavailableError

if TYPE_CHECKING:
    from probes.bpf.loader import BpfObject


def try_uprobe(loaded: BpfObject, program: str) -> None:
    """Attach a program to a function that is never called, and detach it.

    Raises UnavailableError with the reason that every other uprobe would meet.
    """
    loaded.detach(loaded.attach_uprobe(program, *_unused_function()))


def _unused_function() -> tuple[str, int]:
    """A function of libbcc, which no other process maps: (file, offset in it).

    Raises UnavailableError when the library's mapping cannot be found.
    """
    function = compiler.import_bcc().libbcc.lib.bpf_module_license
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        fields = line.split(maxsplit=5)
        low, high = (int(part, 16) for part in fields[0].split("-"))
        if low <= address < high and len(fields) == 6:
            return os.fspath(fields[5].strip()), address - low + int(fields[2], 16)
    raise UnavailableError("no_uprobe", "libbcc is mapped nowhere")
