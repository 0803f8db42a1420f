"""Names that say which demo made a thing, so that the next one can tell what was left behind.

A name is `stallwatch-demo-PID-TICKS-...`: pid and start time of the demo's process, so that a pid
that has been given to another process does not keep a dead demo's things alive.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from engine.readings import Process

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "stallwatch-demo"
_NAME = re.compile(rf"{PREFIX}-(\d+)-(\d+)-\w+")


def own_name(part: str) -> str:
    """The name of a part of this process's demo."""
    process = Procfs().identify(os.getpid())
    ticks = 0 if process is None else process.start_ticks
    return f"{PREFIX}-{os.getpid()}-{ticks}-{part}"


def is_stale(name: str, procfs: Procfs | None = None) -> bool:
    """Whether this is the name of a demo's part whose demo does not run any more."""
    match = _NAME.fullmatch(name)
    if match is None:
        return False
    return not (procfs or Procfs()).alive(Process(int(match[1]), int(match[2])))


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder for state; those of killed demos are removed on the way."""
    base = Path(tempfile.gettempdir())
    for left in base.glob(f"{PREFIX}-*"):
        # Anybody may make a link of that name in /tmp: only real folders of ours are removed.
        if is_stale(left.name) and _is_own_folder(left):
            shutil.rmtree(left, ignore_errors=True)
    folder = base / own_name("state")
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_own_folder(path: Path) -> bool:
    try:
        seen = path.lstat()
    except FileNotFoundError:
        # Another demo that starts just now was quicker.
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid()
