"""Maps read in batches, and how full they are said to be."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from engine.readings import MapUse
from probes.bpf import accounting, batch, capabilities, syscall
from probes.bpf.accounting import Occupancy, account
from probes.bpf.loader import ProgramType, load
from probes.bpf.maps import Map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.root

SOURCE = """
SW_COUNTERS(2, 1);
SW_HASH(owners, u32, u64, 16);
SW_ARRAY(settings, u64, 4);
int on_exec(void *ctx) { return 0; }
"""


@pytest.fixture(params=[syscall.MAP_TYPE_HASH, syscall.MAP_TYPE_PERCPU_HASH])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[int], Map]]:
    capabilities.lift_locked_memory()
    made: list[Map] = []

    def fill(entries: int) -> Map:
        made.append(Map("filled", syscall.map_create(request.param, 4, 12, 4096)))
        for number in range(entries):
            value = struct.pack("=I", number) * (made[-1]._value_bytes // 4)
            made[-1].update(struct.pack("=I", number), value)
        return made[-1]

    yield fill

    for each in made:
        os.close(each.fd)


@pytest.mark.each_kernel
@pytest.mark.parametrize("entries", [0, 1, 1023, 1024, 1025, 4096])
def test_a_map_read_in_batches_is_the_map_read_entry_by_entry(
    make: Callable[[int], Map], entries: int
) -> None:
    filled = make(entries)
    in_batches = dict(filled.items())
    assert filled._batches
    filled._batches = False
    assert dict(filled.items()) == in_batches
    assert len(in_batches) == entries


def test_where_the_kernel_reads_no_batches_entries_are_read_one_by_one(
    make: Callable[[int], Map], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syscall, "MAP_LOOKUP_BATCH", 0x7FFF)
    filled = make(5)
    assert len(dict(filled.items())) == 5
    assert not filled._batches


def test_a_bucket_that_is_larger_than_a_batch_is_read_with_a_larger_one(
    make: Callable[[int], Map], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_ENTRIES", 1)
    assert len(dict(make(4096).items())) == 4096


@dataclass
class Clock:
    now: float = 100.0

    def monotonic(self) -> float:
        return self.now


def test_one_stale_map_is_walked_at_a_time_and_what_the_probe_read_itself_is_free(
    make: Callable[[int], Map], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(accounting, "time", clock)
    monkeypatch.setattr("probes.bpf.maps.time", clock)
    first, second = make(3), make(4)
    first.name, second.name = "first", "second"
    occupancy = Occupancy([first, second])
    assert occupancy.look() == (MapUse("first", 3, 4096),)
    assert occupancy.look() == (MapUse("first", 3, 4096),)
    dict(second.items())
    assert occupancy.look() == (MapUse("first", 3, 4096), MapUse("second", 4, 4096))
    second.update(b"more", b"\0" * second._value_bytes)
    clock.now += accounting.WALK_SECONDS
    assert occupancy.look()[1].entries == 4  # seen lately enough
    clock.now += accounting.FRESH_SECONDS
    occupancy.look()
    clock.now += accounting.WALK_SECONDS
    assert occupancy.look()[1].entries == 5


def test_counters_come_under_their_names_with_skipped_runs_and_the_use_of_maps(
    tmp_path: Path,
) -> None:
    path = tmp_path / "program.bpf.c"
    path.write_text(SOURCE, encoding="utf-8")
    loaded = load(path, {"on_exec": ProgramType.RAW_TRACEPOINT})
    try:
        loaded.map("owners").update(b"abcd", b"12345678")
        told = account("some", loaded, ("", "events"), (("", "map_full"),))
    finally:
        loaded.close()
    assert told.produced == (("", 0), ("events", 0))
    assert told.lost == ((("", "map_full"), 0), (("", "recursion_misses"), 0))
    assert told.maps == (MapUse("owners", 1, 16),)  # arrays are always full
