"""Which device a descriptor of a process is."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from probes.gpu_driver.records import File

OTHER = "other"
PROC = Path("/proc")


class Devices:
    """Names devices. A descriptor that is closed when it is asked for keeps its last name."""

    def __init__(
        self, globs: tuple[str, ...], functions: tuple[str, ...], proc: Path = PROC
    ) -> None:
        self._globs = globs
        self._functions = functions
        self._proc = proc
        self._known: dict[File, str] = {}

    def name(self, file: File) -> str:
        """`nvidia0`, `nvidiactl`, `nvidia-uvm`; `other` for a file that is not the driver's."""
        if file.function is not None:
            return _driver(self._functions[file.function])
        try:
            path = (self._proc / f"{file.pid}/fd/{file.fd}").readlink()
        except OSError:
            return self._known.get(file, OTHER)
        own = any(fnmatch.fnmatchcase(str(path), glob) for glob in self._globs)
        name = self._known[file] = path.name if own else OTHER
        return name

    def forget(self, files: Iterable[File]) -> None:
        """Their processes are gone."""
        for file in files:
            self._known.pop(file, None)


def _driver(function: str) -> str:
    """`nvidia-uvm` and `nvidia` for the driver's own functions, else the function's name."""
    if function.startswith("uvm_"):
        return "nvidia-uvm"
    return "nvidia" if function.startswith("nvidia_") else function
