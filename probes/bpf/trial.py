"""Whether uprobes are allowed here, found out by attaching one where nobody comes by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from probes.bpf.loader import BpfObject


def try_uprobe(loaded: BpfObject, program: str) -> None:
    """Attach a program to a file that nobody maps as code, this one, and detach it.

    Raises UnavailableError with the reason that every other uprobe would meet.
    """
    for attached in loaded.attach_uprobes(program, __file__, [0]):
        loaded.detach(attached)
