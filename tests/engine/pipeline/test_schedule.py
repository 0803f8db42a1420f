"""When groups are due."""

from __future__ import annotations

from engine.pipeline.schedule import Schedule, Slot


def test_times_are_multiples_of_the_interval_whatever_the_start() -> None:
    schedule = Schedule((10_000, 60_000), 10_000, start_ms=12_345)
    assert schedule.ready(20_000, 20_000) == [Slot(0, 20_000)]
    assert schedule.ready(60_000, 30_000) == [Slot(0, 30_000)]
    assert (schedule.reached_ms(0), schedule.reached_ms(1)) == (30_000, 0)


def test_a_slot_waits_for_its_flush() -> None:
    schedule = Schedule((10_000,), 10_000, start_ms=0)
    assert schedule.ready(10_400, 0) == []
    assert schedule.ready(10_900, 10_000) == [Slot(0, 10_000)]


def test_a_slot_between_flushes_needs_the_flush_before_it() -> None:
    schedule = Schedule((15_000,), 10_000, start_ms=0)
    assert schedule.ready(14_999, 10_000) == []
    assert schedule.ready(15_000, 10_000) == [Slot(0, 15_000)]
    assert schedule.ready(30_000, 20_000) == []
    assert schedule.ready(30_100, 30_000) == [Slot(0, 30_000)]


def test_groups_of_one_time_keep_file_order_and_earlier_times_come_first() -> None:
    schedule = Schedule((30_000, 20_000, 30_000), 10_000, start_ms=0)
    assert schedule.ready(30_000, 30_000) == [Slot(1, 20_000), Slot(0, 30_000), Slot(2, 30_000)]


def test_what_was_overrun_is_skipped_and_named() -> None:
    schedule = Schedule((10_000,), 10_000, start_ms=0)
    assert schedule.ready(41_000, 40_000) == [Slot(0, 40_000, range(10_000, 40_000, 10_000))]
    assert schedule.ready(50_000, 50_000) == [Slot(0, 50_000)]


def test_a_group_that_runs_already_goes_on_where_it_is() -> None:
    before = Schedule((10, 10), 10, start_ms=0)
    assert [slot.time_ms for slot in before.ready(now_ms=10, flushed_ms=10)] == [10, 10]
    # 20 is due and waits for its flush when the rules are loaded again, at 25.
    after = Schedule((10, 10), 10, start_ms=25, after_ms=(before.reached_ms(0), None))
    slots = after.ready(now_ms=31, flushed_ms=30)
    assert [(slot.group, slot.time_ms, slot.skipped) for slot in slots] == [
        (0, 30, range(20, 30, 10)),
        (1, 30, range(30, 30, 10)),
    ]


def test_a_clock_that_leaps_from_1970_passes_over_the_years_at_once() -> None:
    schedule = Schedule((10_000,), 10_000, start_ms=0)
    (slot,) = schedule.ready(1_800_000_000_000, 1_800_000_000_000)
    assert (slot.time_ms, len(slot.skipped)) == (1_800_000_000_000, 179_999_999)
    assert schedule.ready(1_800_000_010_000, 1_800_000_010_000) == [Slot(0, 1_800_000_010_000)]
