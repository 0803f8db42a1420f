"""Buckets: what the kernel counts into, and what is exported."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from bisect import bisect_left
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.readings import Process
from probes.functions.histogram import FINITE, Buckets, duration_bound, le, value_bound
from probes.functions.records import BUCKETS, Slow, Thread, Total, TotalKey

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER = Path(__file__).resolve().parents[3] / "probes/bpf/words/calls.h"
PROCESS = Process(5, 6)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The bucket functions of calls.h, compiled for this machine."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    text = HEADER.read_text(encoding="utf-8")
    part = text[text.index("/* floor(log2(value))") : text.index("/* A bucket as an index")]
    head = "typedef unsigned int u32; typedef unsigned long long u64; typedef long long s64;\n"
    head += f"#define __always_inline inline\n#define SW_CALL_BUCKETS {BUCKETS}\n"
    tail = "u32 duration(u64 v) { return call_duration_bucket(v); }\n"
    tail += "u32 value(u64 v) { return call_value_bucket(v); }\n"
    folder = tmp_path_factory.mktemp("words")
    (folder / "words.c").write_text(head + part + tail, encoding="utf-8")
    command = ["gcc", "-O1", "-shared", "-fPIC", "-o", f"{folder}/words.so", f"{folder}/words.c"]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "words.so"))
    for name in ("duration", "value"):
        getattr(library, name).argtypes = [ctypes.c_uint64]
    return library


def near(bounds: list[int]) -> st.SearchStrategy[int]:
    """Numbers at and beside the bounds, and any other."""
    edges = st.sampled_from(bounds).flatmap(lambda b: st.integers(max(0, b - 2), b + 2))
    return st.one_of(edges, st.integers(0, (1 << 63) - 1))


DURATIONS = [int(duration_bound(k) * 1e9) for k in range(FINITE)]
VALUES = [int(value_bound(k)) for k in range(FINITE)]


@settings(max_examples=300, deadline=None)
@given(nanoseconds=near(DURATIONS))
def test_a_duration_is_in_the_first_bucket_whose_bound_holds_it(
    words: ctypes.CDLL, nanoseconds: int
) -> None:
    # A whole number is at most a bound if it is at most the bound without its fraction.
    assert words.duration(nanoseconds) == bisect_left(DURATIONS, nanoseconds)


@settings(max_examples=300, deadline=None)
@given(value=near(VALUES))
def test_a_value_is_in_the_first_bucket_whose_bound_holds_it(
    words: ctypes.CDLL, value: int
) -> None:
    assert words.value(value) == bisect_left(VALUES, value)
    assert words.value((1 << 64) - 1 - value) == 0  # negative


def test_bounds_are_powers_of_two_in_seconds_and_spelt_as_prometheus_spells_them() -> None:
    assert [text for _, text in Buckets.of_durations(step=4, last=24).bounds] == [
        "9.5367431640625e-07", "1.52587890625e-05", "0.000244140625", "0.00390625", "0.0625",
        "1.0", "16.0",
    ]  # fmt: skip
    assert le(value_bound(2)) == "16.0"


@pytest.mark.parametrize("make", [Buckets.of_durations, Buckets.of_values])
@settings(max_examples=60, deadline=None)
@given(counts=st.lists(st.integers(0, 50), min_size=BUCKETS, max_size=BUCKETS))
def test_exported_buckets_are_cumulative_and_lose_nothing(
    make: Callable[[], Buckets], counts: list[int]
) -> None:
    buckets = make()
    total = Total(timed=sum(counts), sum=7 * any(counts), buckets=tuple(counts))
    readings = list(buckets.counts("m", PROCESS, total, (("a", "b"),)))
    if not total.timed:
        assert readings == []
        return
    shown = {dict(each.labels)["le"]: each.delta for each in readings if "bucket" in each.metric}
    for bucket, text in buckets.bounds:
        assert shown.get(text, 0) == sum(counts[: bucket + 1])
    assert shown["+Inf"] == readings[-1].delta == sum(counts)
    assert {(each.metric, each.labels) for each in readings} <= set(
        buckets.names("m", (("a", "b"),))
    )


def test_a_call_that_a_look_met_half_counted_is_whole_after_the_next() -> None:
    first, second = Total(calls=1, timed=1), Total(sum=3, buckets=(0, 1) + (0,) * (BUCKETS - 2))
    told: Counter[str] = Counter()
    for total in (first, second):
        for each in Buckets.of_values().counts("size", None, total):
            told[each.metric] += int(each.delta)
    assert (told["size_sum"], told["size_count"]) == (3, 1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 1 << 40), min_size=8 + BUCKETS, max_size=8 + BUCKETS))
def test_differences_of_totals_add_up(numbers: list[int]) -> None:
    raw = b"".join(n.to_bytes(8, "little") for n in numbers)
    total = Total.decode(raw)
    assert total.since(Total()) == total
    nothing = total.since(total)
    assert (nothing.hits, nothing.sum, nothing.buckets) == (0, 0, (0,) * BUCKETS)
    assert nothing.last == total.last


def test_records_are_decoded_field_by_field() -> None:
    key = struct.pack("=QII", 9, 7, 3)
    assert TotalKey.decode(key) == TotalKey(tgid=7, born=9, slot=3)
    fields = [0, 2, 1, *(5, 1, 0, 0, 0, 0), *(4, 1, 0, 0, 0, 0), *([0] * 12)]
    value = b"".join(n.to_bytes(8, "little") for n in fields)
    thread = Thread(pid=7, tid=8, slot=3, open_since=0, entries=2, abandoned=1, frames=2)
    assert Thread.decode(thread.key(), value) == thread
    assert Thread.decode(thread.key(), thread.closed()).abandoned == 3
    record = b"".join(n.to_bytes(8, "little") for n in (9, 2, 7 << 32 | 8, 5, 3, 1, 64, 11, 12))
    slow = Slow(9, 2, 7, 8, 5, 3, failed=True, size_bytes=64, a=11, b=12)
    assert Slow.decode(record + b"pad ") == slow
