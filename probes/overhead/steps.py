"""When the steps of a command ended: told by its output, or by a file that it writes."""

from __future__ import annotations

import re
import struct
import threading
import time
from typing import IO, TYPE_CHECKING

import numpy as np

from probes.overhead.errors import OverheadError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

# Below: seconds of CLOCK_MONOTONIC; above: unix time (of 2001 and later).
_UNIX_SECONDS = 1e9


class StepLines:
    """Reads an output in a thread; each line that matches ends a step now. All lines go on."""

    def __init__(self, output: IO[str], pattern: str, onward: IO[str]) -> None:
        self._pattern = re.compile(pattern)
        self._onward = onward
        self._ends: list[float] = []
        self._thread = threading.Thread(target=self._read, args=(output,), daemon=True)
        self._thread.start()

    def ends(self) -> list[NDArray[np.float64]]:
        """One float64[steps]: when each ended, in seconds of CLOCK_MONOTONIC."""
        return [np.array(self._ends)]

    def close(self) -> None:
        """Wait for the output's end."""
        self._thread.join(5)

    def _read(self, output: IO[str]) -> None:
        for line in output:
            if self._pattern.search(line):
                self._ends.append(time.monotonic())
            self._onward.write(line)


class StepFiles:
    """Files, one for each rank, to which the command adds the end of each step.

    Text: a number of seconds a line, of CLOCK_MONOTONIC or since 1970. Else doubles in the
    machine's own order.
    """

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = paths

    def ends(self) -> list[NDArray[np.float64]]:
        """Per file float64[steps], in seconds of CLOCK_MONOTONIC."""
        ahead = time.time() - time.monotonic()
        found = []
        for path in self._paths:
            times = read_times(path.read_bytes() if path.exists() else b"")
            found.append(np.where(times > _UNIX_SECONDS, times - ahead, times))
        return found

    def close(self) -> None:
        """Nothing is held open."""


def read_times(data: bytes) -> NDArray[np.float64]:
    """The numbers of a file of text lines or of doubles; a part at its end is left out."""
    if data.strip(b"0123456789.+-eE \r\n"):
        whole = len(data) // 8
        return np.array(struct.unpack(f"={whole}d", data[: whole * 8]), dtype=np.float64)
    text = data.rpartition(b"\n")[0]
    try:
        return np.array([float(line) for line in text.split()], dtype=np.float64)
    except ValueError as error:
        raise OverheadError(
            f"overhead: a step file holds seconds, one number a line: {error}"
        ) from error
