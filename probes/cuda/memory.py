"""From the kernel's account of living allocations to the bytes that each process holds. Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from engine.readings import Level
from probes.cuda.calls import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.readings import Process

METRIC = "cuda_memory_bytes"
STREAM = "memory"

Incarnation: TypeAlias = "tuple[int, int]"
"""(tgid, born): a process as the kernel's program knows it, see words/calls.h."""

_HELD_KEY = struct.Struct("=QII")
_HELD = struct.Struct("=Qq")
_ALLOCATION_KEY = struct.Struct("=QII")
_ALLOCATION = struct.Struct("=QQQ")


@dataclass(frozen=True, slots=True)
class Held:
    """`struct held` of program.bpf.c under its key: bytes of one kind, after so many changes."""

    owner: Incarnation
    kind: str
    changes: int
    byte_count: int

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Held:
        """From the map's bytes."""
        born, tgid, kind = _HELD_KEY.unpack(key)
        changes, byte_count = _HELD.unpack(value)
        return cls((tgid, born), MEMORY[kind], changes, byte_count)


def owner_of_allocation(key: bytes, value: bytes) -> Incarnation:
    """Whose allocation a record of the map `allocations` is."""
    _, tgid, _ = _ALLOCATION_KEY.unpack(key)
    born, _, _ = _ALLOCATION.unpack(value)
    return tgid, born


class MemoryAccounts:
    """What was told of each process and kind of memory."""

    def __init__(self) -> None:
        self._changes: dict[tuple[Incarnation, str], int] = {}

    def readings(
        self,
        held: Iterable[Held],
        owner: Callable[[Incarnation], Process | None],
        living: Callable[[Incarnation], bool],
    ) -> Iterator[Level]:
        """A gauge per process and kind, as read now; processes of one rank add up.

        A dead process holds nothing. It is told of all the same while it has changes left, so that
        what the kernel produced is all consumed.
        """
        for each in held:
            key = each.owner, each.kind
            weight = each.changes - self._changes.get(key, 0)
            self._changes[key] = each.changes
            lives = living(each.owner)
            if lives or weight:
                value = float(max(0, each.byte_count)) if lives else 0.0
                labels = (("kind", each.kind),)
                yield Level(METRIC, owner(each.owner), value, labels, "sum", weight, STREAM)

    def forget(self, owners: Iterable[Incarnation]) -> None:
        """These are gone, and their records were deleted."""
        gone = set(owners)
        for key in [key for key in self._changes if key[0] in gone]:
            del self._changes[key]
