"""A tree like /sys/class with RDMA devices, and device nodes that anyone may open."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# The number of /dev/null stands in for that of uverbs0, that of /dev/zero for uverbs1.
STAND_INS = {"uverbs0": (1, 3), "uverbs1": (1, 5)}


@dataclass(frozen=True, slots=True)
class Tree:
    """`root` is what /sys/class would be."""

    root: Path

    def port(self, device: str, port: int = 1, **counters: object) -> None:
        """Write files of a port; a name goes to `counters` when it is one of the PMA's."""
        for name, value in counters.items():
            pma = name.startswith(("port_", "link_", "symbol_", "local_link"))
            self.file(device, f"ports/{port}/{'counters' if pma else 'hw_counters'}/{name}", value)

    def file(self, device: str, path: str, value: object) -> None:
        """Write one file below a device."""
        file = self.root / "infiniband" / device / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n", encoding="ascii")

    def verbs(self, node: str, device: str) -> None:
        """Say which device a node below /dev/infiniband is."""
        folder = self.root / "infiniband_verbs" / node
        folder.mkdir(parents=True)
        major, minor = STAND_INS[node]
        (folder / "dev").write_text(f"{major}:{minor}\n", encoding="ascii")
        (folder / "ibdev").write_text(f"{device}\n", encoding="ascii")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """No device yet, but RDMA."""
    (tmp_path / "infiniband").mkdir()
    (tmp_path / "infiniband_verbs").mkdir()
    (tmp_path / "infiniband_verbs/abi_version").write_text("6\n", encoding="ascii")
    return Tree(tmp_path)


@pytest.fixture
def node(tmp_path: Path) -> Callable[[str], Path]:
    """Make a character device as /dev/infiniband/uverbsN is one; skips where it may not."""

    def make(name: str) -> Path:
        path = tmp_path / name
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(*STAND_INS[name]))
            path.open("rb").close()
        except PermissionError:
            pytest.skip("device nodes cannot be made or opened here: needs root")
        return path

    return make
