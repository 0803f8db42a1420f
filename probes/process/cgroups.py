"""Control group ids, as BPF tells them, to containers.

On 64-bit kernels the id of a group of the unified hierarchy is the inode number of its folder
(kernfs, since 5.5; before, the two halves of it agree in the lower one).
"""

from __future__ import annotations

import os
from pathlib import Path

from engine.aggregate.containers import container_of

MOUNTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
UNKNOWN = "unknown"
# Folders looked at in one walk; a node of 250 pods has some thousand.
MAX_FOLDERS = 20_000
_INODE_MASK = 0xFFFFFFFF


class CgroupNames:
    """Remembers which container a group's id means. Asks the file system once per unknown id."""

    def __init__(self, mounts: tuple[Path, ...] = MOUNTS) -> None:
        self._root = next((each for each in mounts if (each / "cgroup.controllers").exists()), None)
        self._names = {0: ""}

    @property
    def known(self) -> bool:
        """Whether there is a unified hierarchy to find names in."""
        return self._root is not None

    def containers(self, ids: set[int]) -> dict[int, str]:
        """`pod:UID`, `container:ID`, "" for the node itself, `unknown` for a group that is gone."""
        if any(each not in self._names for each in ids):
            self._walk()
        # What is gone stays unknown: it would be looked for at every flush.
        return {each: self._names.setdefault(each, UNKNOWN) for each in ids}

    def _walk(self) -> None:
        if self._root is None:
            return
        gone = {known: name for known, name in self._names.items() if name == UNKNOWN}
        self._names = {0: ""} | gone
        waiting = [self._root]
        for _ in range(MAX_FOLDERS):
            if not waiting:
                break
            folder = waiting.pop()
            try:
                inode = folder.stat().st_ino
                with os.scandir(folder) as entries:
                    waiting += [Path(each.path) for each in entries if each.is_dir()]
            except OSError:
                continue  # a container that ended meanwhile
            path = "/" + str(folder.relative_to(self._root))
            self._names[inode] = self._names[inode & _INODE_MASK] = container_of((path,)).task_id
