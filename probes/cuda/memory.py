"""From the kernel's account of living allocations to the bytes that each process holds."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from engine.readings import Count, Level
from probes.cuda.calls import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.readings import Process, Reading
    from probes.bpf.maps import Map

HELD = "cuda_memory_bytes"
CHANGES = "cuda_memory_changes_total"
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


def owner_of_held(key: bytes, _value: bytes) -> Incarnation:
    """Whose a record of the map `held` is."""
    born, tgid, _ = _HELD_KEY.unpack(key)
    return tgid, born


def owner_of_allocation(key: bytes, value: bytes) -> Incarnation:
    """Whose a record of the map `allocations` is."""
    _, tgid, _ = _ALLOCATION_KEY.unpack(key)
    born, _, _ = _ALLOCATION.unpack(value)
    return tgid, born


class Memory:
    """Reads and clears the maps `held` and `allocations`. One thread uses it.

    `owner`: the process of an incarnation, None when it was never seen; `living`: whether it runs.
    """

    def __init__(
        self,
        held: Map,
        allocations: Map,
        owner: Callable[[Incarnation], Process | None],
        living: Callable[[Incarnation], bool],
    ) -> None:
        self._maps = ((held, owner_of_held), (allocations, owner_of_allocation))
        self._held = held
        self._owner = owner
        self._living = living
        self._owners: dict[Incarnation, Process | None] = {}
        self._told: dict[tuple[Incarnation, str], int] = {}
        self._whole = True

    def meet(self) -> None:
        """Note whose each account is, before a look forgets the processes that ended."""
        for key, value in self._held.items():
            owner = owner_of_held(key, value)
            if self._owners.get(owner) is None:
                self._owners[owner] = self._owner(owner)

    def readings(self, *, whole: bool) -> Iterator[Reading]:
        """A gauge per living process and kind; processes of one rank add up. After a look.

        `whole` False: some allocations or frees are not seen at present, and what is held is not
        known. When all are seen again, the account begins anew.
        """
        held = [Held.decode(*item) for item in self._held.items()]
        for each in held:
            yield from self._changes(each)
        self._forget({each.owner for each in held if not self._living(each.owner)})
        if whole and not self._whole:
            self._forget({each.owner for each in held})
        elif whole:
            for each in held:
                if self._living(each.owner):
                    value = float(max(0, each.byte_count))
                    owner = self._owners[each.owner]
                    yield Level(HELD, owner, value, (("kind", each.kind),), fold="sum")
        self._whole = whole

    def _changes(self, held: Held) -> Iterator[Reading]:
        owner = self._owners.get(held.owner) or self._owner(held.owner)
        self._owners[held.owner] = owner
        key = held.owner, held.kind
        weight = held.changes - self._told.get(key, 0)
        self._told[key] = held.changes
        if weight:
            labels = (("kind", held.kind),)
            yield Count(CHANGES, owner, float(weight), labels, weight, STREAM)

    def _forget(self, owners: Iterable[Incarnation]) -> None:
        """They ended, run another program, or what they hold is not known any more."""
        gone = set(owners)
        if not gone:
            return
        for table, owner in self._maps:
            for key, value in table.items():
                if owner(key, value) in gone:
                    table.delete(key)
        self._told = {key: n for key, n in self._told.items() if key[0] not in gone}
        self._owners = {key: owner for key, owner in self._owners.items() if key not in gone}
