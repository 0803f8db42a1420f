"""Rows in any order become the series that a dict of first values would hold."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.dataset.assembly import Assembly, rows_read
from engine.labels import Labels

NAMES = [Labels.of(__name__="up", rank=str(number)) for number in range(3)]
NOBODYS = -1
BATCHES = st.lists(
    st.lists(
        st.tuples(
            st.integers(NOBODYS, len(NAMES) - 1),
            st.integers(0, 6),
            st.integers(0, 1),
            # Long runs are kept as they are, short ones are gathered by a sort.
            st.sampled_from([1, 100]),
        ),
        max_size=6,
    ),
    max_size=5,
)


@settings(max_examples=150, deadline=None)
@given(BATCHES)
def test_of_several_rows_at_one_time_the_first_is_kept_and_the_others_are_counted(
    batches: list[list[tuple[int, int, int, int]]],
) -> None:
    assembly = Assembly()
    own = [assembly.number(labels) for labels in NAMES]
    first: dict[Labels, dict[int, float]] = {}
    repeated, conflicts, row = 0, [], 0
    for batch in batches:
        rows = [
            (number, time_ms * 1000 + at, float(value))
            for number, time_ms, value, count in batch
            for at in range(count)
        ]
        for number, time_ms, value in rows:
            if number != NOBODYS:
                kept = first.setdefault(NAMES[number], {})
                repeated += kept.setdefault(time_ms, value) == value
                if kept[time_ms] != value:
                    conflicts.append(row)
            row += 1
        if not rows:
            continue
        numbers = np.array([own[number] if number >= 0 else number for number, _, _ in rows])
        times = np.array([time_ms for _, time_ms, _ in rows])
        assembly.add(numbers, rows_read(times, np.array([value for *_, value in rows])))
    repeated -= sum(len(kept) for kept in first.values())
    found = assembly.build()
    assert {
        one.labels: dict(zip(one.timestamps_ms.tolist(), one.values.tolist(), strict=True))
        for one in found.series
    } == first
    assert [one.labels for one in found.series] == sorted(first)
    assert all((np.diff(one.timestamps_ms) > 0).all() for one in found.series)
    assert (found.repeated, found.conflicting) == (repeated, len(conflicts))
    assert (found.conflict.row if found.conflict else None) == min(conflicts, default=None)


def test_series_with_equal_times_share_them_also_when_they_come_in_pieces() -> None:
    assembly = Assembly()
    own = [assembly.number(labels) for labels in NAMES]
    times = np.arange(1_767_000_000_000, 1_767_000_200_000, 1000)
    for low in (0, 100):
        piece = np.tile(times[low : low + 100], len(NAMES))
        numbers = np.repeat(own, 100)
        assembly.add(numbers, rows_read(piece, np.ones(piece.size)))
    first, second, third = assembly.build().series
    assert first.timestamps_ms is second.timestamps_ms is third.timestamps_ms
    assert first.timestamps_ms.tolist() == times.tolist()
