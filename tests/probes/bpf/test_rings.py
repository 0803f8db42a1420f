"""Rings that grow, and whom they wake, on the running kernel."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.doorbell import Doorbell
from probes.bpf import events, syscall
from probes.bpf.events import RingReader
from probes.bpf.loader import BpfObject, ProgramType, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.root, pytest.mark.each_kernel]

PAGE = os.sysconf("SC_PAGE_SIZE")
# 64 bytes in the ring, header included: a page of 4 KiB takes 63.
SOURCE = """
SW_COUNTERS(1, 1);
SW_EVENTS(records, 1);
struct record { u64 at; u64 thread; u64 pad[5]; };
int on_hit(void *ctx)
{
    u64 id = bpf_get_current_pid_tgid();
    struct record record = {};
    if ((u32)(id >> 32) != PID)
        return 0;
    sw_count(sw_produced, 0);
    record.at = bpf_ktime_get_ns();
    record.thread = (u32)id;
    if (sw_output(records, ctx, &record))
        sw_count(sw_lost, 0);
    return 0;
}
"""
RECORD_BYTES = 64


@pytest.fixture
def bell(monkeypatch: pytest.MonkeyPatch) -> Doorbell:
    bell = Doorbell()
    monkeypatch.setattr(events, "DOORBELL", bell)
    return bell


@pytest.fixture
def counting(tmp_path: Path, bell: Doorbell) -> Iterator[BpfObject]:
    path = tmp_path / "program.bpf.c"
    path.write_text(SOURCE, encoding="utf-8")
    loaded = load(path, {"on_hit": ProgramType.UPROBE}, {"PID": os.getpid()})
    loaded.attach_uprobe("on_hit", *_getppid())
    yield loaded
    loaded.close()


def _getppid() -> tuple[str, int]:
    address = ctypes.cast(ctypes.CDLL(None).getppid, ctypes.c_void_p).value or 0
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        span, _, start, *_, path = line.split(maxsplit=5) + [""] * (len(line.split()) < 6)
        low, high = (int(part, 16) for part in span.split("-"))
        if low <= address < high:
            return path.strip(), address - low + int(start, 16)
    raise AssertionError("getppid is mapped nowhere")


def _reader(loaded: BpfObject, *, max_pages: int = 64, prompt: bool = False) -> RingReader:
    reader = loaded.events("records", 1, max_pages=max_pages, prompt=prompt)
    assert isinstance(reader, RingReader)
    return reader


def _hit(times: int) -> None:
    for _ in range(times):
        os.getppid()


def test_a_record_from_before_the_reader_is_not_lost(counting: BpfObject) -> None:
    _hit(3)
    assert len(_reader(counting).drain()) == 3


def test_a_ring_that_was_more_than_half_full_is_replaced_by_one_of_twice_the_size(
    counting: BpfObject,
) -> None:
    reader = _reader(counting)
    half = PAGE // 2 // RECORD_BYTES
    sizes = []
    for hits in (half, half + 1, half + 1, 2 * half + 1, 1):
        _hit(hits)
        assert len(reader.drain()) == hits
        sizes.append(reader.size // PAGE)
    assert sizes == [1, 2, 2, 4, 4]
    assert reader.replaced_total == 2
    assert counting.lost() == [0]


def test_a_ring_that_lost_records_grows_until_it_holds_them(counting: BpfObject) -> None:
    reader = _reader(counting)
    received, lost = 0, []
    for _ in range(6):
        before = counting.lost()[0]
        _hit(500)
        received += len(reader.drain())
        lost.append(counting.lost()[0] - before)
    assert lost[0] > 0
    assert lost[-1] == 0
    assert received + counting.lost()[0] == counting.produced()[0] == 3000


def test_growing_loses_nothing_and_keeps_the_order_while_threads_write(
    counting: BpfObject,
) -> None:
    reader = _reader(counting)
    writers = [threading.Thread(target=_hit, args=(20_000,)) for _ in range(2)]
    for writer in writers:
        writer.start()
    records: list[bytes] = []
    while any(writer.is_alive() for writer in writers):
        records += reader.drain()
    records += reader.drain()
    assert reader.replaced_total > 0
    assert len(records) + counting.lost()[0] == counting.produced()[0] == 40_000
    times: dict[int, list[int]] = {}
    for record in records:
        at, thread = struct.unpack_from("=QQ", record)
        times.setdefault(thread, []).append(at)
    assert all(each == sorted(each) for each in times.values())


def test_a_ring_never_outgrows_its_bound(counting: BpfObject) -> None:
    reader = _reader(counting, max_pages=2)
    for _ in range(3):
        _hit(500)
        reader.drain()
    assert reader.size == 2 * PAGE


def test_where_the_kernel_demands_one_size_the_ring_stays_and_losses_are_counted(
    counting: BpfObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_fd: int, _key: bytes, _value: bytes) -> None:
        raise OSError(errno.EINVAL, "as before 5.10")

    reader = _reader(counting)
    monkeypatch.setattr(syscall, "map_update", refuse)
    for _ in range(2):
        _hit(100)
        assert len(reader.drain()) == 63
    assert reader.size == PAGE
    assert counting.lost() == [2 * (100 - 63)]


def _rings(bell: Doorbell, hit: Callable[[], None], times: int) -> int:
    before = bell.rung_total
    for _ in range(times):
        hit()
        bell.wait(0)
    return bell.rung_total - before


def test_records_below_half_a_ring_wake_nobody(counting: BpfObject, bell: Doorbell) -> None:
    reader = _reader(counting)
    half = PAGE // 2 // RECORD_BYTES
    assert _rings(bell, lambda: _hit(1), half) == 0
    assert _rings(bell, lambda: _hit(1), half - 1) == 1  # the one that passed the middle
    reader.drain()
    assert _rings(bell, lambda: _hit(1), half) == 0


def test_a_prompt_ring_wakes_for_the_first_record_and_not_for_those_behind_it(
    counting: BpfObject, bell: Doorbell
) -> None:
    reader = _reader(counting, prompt=True)
    for _ in range(3):
        assert _rings(bell, lambda: _hit(1), 10) == 1
        assert len(reader.drain()) == 10


def test_a_replaced_ring_wakes_as_the_first_did(counting: BpfObject, bell: Doorbell) -> None:
    reader = _reader(counting, prompt=True)
    _hit(40)
    reader.drain()
    assert reader.replaced_total == 1
    bell.wait(0)
    assert _rings(bell, lambda: _hit(1), 5) == 1


def test_no_descriptor_is_left_of_rings_that_were_replaced(counting: BpfObject) -> None:
    reader = _reader(counting)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        _hit(1000)
        reader.drain()
    assert reader.replaced_total > 2
    assert len(list(Path("/proc/self/fd").iterdir())) == before
