"""The account of memory from bytes as the kernel gives them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, cast

from engine.readings import Count, Level, Process, Reading
from probes.cuda.calls import MEMORY
from probes.cuda.memory import Incarnation, Memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probes.bpf.maps import Map

ONE, TWO = Process(7, 100), Process(8, 200)


class Table(dict[bytes, bytes]):
    """As `Map`."""

    def delete(self, key: bytes) -> bool:
        return self.pop(key, None) is not None

    def items(self) -> Iterator[tuple[bytes, bytes]]:  # type: ignore[override]
        return iter(list(super().items()))


class Node:
    """Two processes; each by (tgid, born)."""

    def __init__(self) -> None:
        self.held, self.allocations = Table(), Table()
        self.owners: dict[Incarnation, Process] = {(7, 1000): ONE, (8, 2000): TWO}
        self.memory = Memory(
            cast("Map", self.held),
            cast("Map", self.allocations),
            self.owners.get,
            lambda incarnation: incarnation in self.owners,
        )

    def hold(self, owner: Incarnation, kind: str, changes: int, size: int) -> None:
        key = struct.pack("=QII", owner[1], owner[0], MEMORY.index(kind))
        self.held[key] = struct.pack("=Qq", changes, size)
        pointer = struct.pack("=QII", 0x7F00 + len(self.allocations), owner[0], 0)
        self.allocations[pointer] = struct.pack("=QQQ", owner[1], size, MEMORY.index(kind))

    def flush(self, *, whole: bool = True) -> list[Reading]:
        return list(self.memory.readings(whole=whole))


def levels(readings: list[Reading]) -> dict[tuple[Process | None, str], float]:
    found = [each for each in readings if isinstance(each, Level)]
    assert all(each.fold == "sum" for each in found)
    return {(each.process, dict(each.labels)["kind"]): each.value for each in found}


def weights(readings: list[Reading]) -> dict[tuple[Process | None, str], int]:
    found = [each for each in readings if isinstance(each, Count)]
    assert all(each.stream == "memory" and each.delta == each.weight for each in found)
    return {(each.process, dict(each.labels)["kind"]): each.weight for each in found}


def test_a_gauge_per_process_and_kind_is_told_at_every_flush_and_each_change_once() -> None:
    node = Node()
    node.hold((7, 1000), "device", 3, 4096)
    node.hold((7, 1000), "host", 1, 512)
    node.hold((8, 2000), "device", 2, 0)
    first, second = node.flush(), node.flush()
    gauges = {(ONE, "device"): 4096, (ONE, "host"): 512, (TWO, "device"): 0}
    assert levels(first) == levels(second) == gauges
    assert weights(first) == {(ONE, "device"): 3, (ONE, "host"): 1, (TWO, "device"): 2}
    assert weights(second) == {}


def test_a_process_that_ended_is_told_of_once_more_and_its_records_go() -> None:
    node = Node()
    node.hold((7, 1000), "device", 3, 4096)
    node.hold((8, 2000), "device", 1, 1)
    node.flush()
    del node.owners[7, 1000]
    node.hold((7, 1000), "device", 5, 8192)
    readings = node.flush()
    assert weights(readings) == {(ONE, "device"): 2}
    assert levels(readings) == {(TWO, "device"): 1}
    assert len(node.held) == len(node.allocations) == 1


def test_another_program_in_the_same_process_begins_with_nothing() -> None:
    node = Node()
    node.hold((7, 1000), "device", 3, 4096)
    node.flush()
    del node.owners[7, 1000]
    node.owners[7, 5000] = ONE
    node.hold((7, 5000), "device", 1, 10)
    assert levels(node.flush()) == {(ONE, "device"): 10}


def test_while_some_calls_are_not_seen_nothing_is_claimed_and_then_the_account_begins_anew() -> (
    None
):
    node = Node()
    node.hold((7, 1000), "device", 3, 4096)
    node.flush()
    node.hold((7, 1000), "device", 7, 9999)
    readings = node.flush(whole=False)
    assert levels(readings) == {}
    assert weights(readings) == {(ONE, "device"): 4}
    assert levels(node.flush()) == {}
    assert not node.held
    assert not node.allocations
    node.hold((7, 1000), "device", 1, 5)
    assert levels(node.flush()) == {(ONE, "device"): 5}


def test_a_process_that_was_met_while_it_was_known_owns_its_last_changes() -> None:
    node = Node()
    node.hold((7, 1000), "device", 3, 4096)
    node.memory.meet()
    del node.owners[7, 1000]
    assert weights(node.flush()) == {(ONE, "device"): 3}
    assert not node.allocations
