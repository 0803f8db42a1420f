"""The rules that ship."""

from __future__ import annotations

from pathlib import Path


def shipped() -> tuple[Path, ...]:
    """The shipped rule files, in the order in which they are loaded."""
    folder = Path(__file__).parent
    names = ("comm.yaml", "gpu.yaml", "process.yaml", "baseline.yaml", "self.yaml")
    return tuple(folder / name for name in names)
