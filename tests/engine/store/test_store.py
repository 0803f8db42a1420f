from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.flush import Flush, TaskEvent
from engine.labels import Labels
from engine.series import STALE_NAN, stale_mask
from engine.store import Store
from rules.promql.ast import Matcher, MatchOp
from rules.source import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

NOWHERE = Span(0, 0)


def matcher(label: str, op: MatchOp, value: str) -> Matcher:
    return Matcher(NOWHERE, label, op, value)


def flush(time_ms: int, **values: float) -> Flush:
    labels = tuple(Labels.of(__name__=name) for name in values)
    return Flush(time_ms, labels, np.array(list(values.values()), dtype=np.float64))


def rows(store: Store, matchers: Sequence[Matcher] = ()) -> dict[str, list[tuple[int, float]]]:
    return {
        str(series.labels): list(
            zip(series.timestamps_ms.tolist(), series.values.tolist(), strict=True)
        )
        for series in store.select(matchers, -(10**15), 10**15)
    }


def test_series_flushed_together_share_one_timestamps_array() -> None:
    store = Store()
    for time_ms in range(0, 2_000_000, 10_000):
        store.append(flush(time_ms, a=1, b=2))
    a, b = store.select((), 5_000, 1_500_000)
    assert a.timestamps_ms is b.timestamps_ms
    assert a.timestamps_ms.tolist() == list(range(10_000, 1_500_001, 10_000))
    assert a.values.flags.c_contiguous


def test_series_with_the_same_gaps_share_too() -> None:
    store = Store()
    store.append(flush(10, a=1, b=2, c=3))
    store.append(flush(20, c=3))
    store.append(flush(30, a=1, b=2, c=3))
    a, b, c = store.select((), 0, 100)
    assert a.timestamps_ms is b.timestamps_ms
    assert a.timestamps_ms.tolist() == [10, 30]
    assert c.timestamps_ms.tolist() == [10, 20, 30]


def test_a_sample_not_after_the_newest_of_its_series_is_dropped_and_counted() -> None:
    store = Store()
    store.append(flush(20, a=1))
    store.append(flush(20, a=2))
    store.append(flush(10, a=3, b=4))
    assert rows(store) == {"a": [(20, 1.0)], "b": [(10, 4.0)]}
    assert store.dropped_total["out_of_order"] == 2


def test_an_output_with_a_query_offset_lands_between_rows() -> None:
    store = Store()
    for time_ms in (10, 20, 30):
        store.append(flush(time_ms, a=time_ms))
    store.append_samples(15, [Labels.of(__name__="r")], np.array([1.0]))
    store.append_samples(20, [Labels.of(__name__="r")], np.array([2.0]))
    assert rows(store) == {
        "a": [(10, 10.0), (20, 20.0), (30, 30.0)],
        "r": [(15, 1.0), (20, 2.0)],
    }


def test_the_staleness_marker_keeps_its_bits() -> None:
    store = Store()
    store.append(flush(10, a=float(STALE_NAN), b=float("nan")))
    a, b = store.select((), 0, 100)
    assert stale_mask(a.values).tolist() == [True]
    assert stale_mask(b.values).tolist() == [False]


def test_the_window_moves_on_and_forgets_series() -> None:
    store = Store(window_ms=100_000)
    store.append(flush(0, gone=1))
    for time_ms in range(10_000, 3_000_000, 10_000):
        store.append(flush(time_ms, a=1))
    assert store.series_count == 1
    (a,) = store.select((), 0, 10**9)
    assert a.timestamps_ms[0] <= 2_990_000 - 100_000
    assert a.timestamps_ms.size < 10 + 2 * 64
    store.append_samples(2_000, [Labels.of(__name__="late")], np.array([1.0]))
    assert store.dropped_total["too_old"] == 1


def test_over_the_bound_a_new_series_is_refused_and_counted() -> None:
    store = Store(max_series=2)
    store.append(flush(10, a=1, b=2, c=3))
    assert set(rows(store)) == {"a", "b"}
    assert store.dropped_total == {"series_limit": 1}


def test_over_the_bound_series_that_ended_make_room() -> None:
    store = Store(max_series=2)
    store.append(flush(10, a=1, b=2))
    store.append(flush(20, a=float(STALE_NAN), b=2))
    store.append(flush(30, b=2, c=3))
    assert rows(store) == {"b": [(10, 2.0), (20, 2.0), (30, 2.0)], "c": [(30, 3.0)]}
    assert store.dropped_total == {"evicted_series": 1}


def test_a_sample_costs_less_than_sixteen_bytes() -> None:
    store = Store()
    names = tuple(Labels.of(__name__=f"s{i}") for i in range(200))
    for time_ms in range(0, 6_400_000, 10_000):
        store.append(Flush(time_ms, names, np.ones(200)))
    assert store.nbytes / (200 * 640) < 16


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (matcher("task_id", "=", ""), ["m", 'm{rank="1"}']),
        (matcher("task_id", "!=", ""), ['m{rank="0", task_id="t"}']),
        (matcher("rank", "=~", "0|1"), ['m{rank="0", task_id="t"}', 'm{rank="1"}']),
        (matcher("rank", "=~", "[[:digit:]]?"), ["m", 'm{rank="0", task_id="t"}', 'm{rank="1"}']),
        (matcher("rank", "!~", ".+"), ["m"]),
        (matcher("__name__", "=", "other"), []),
    ],
)
def test_matchers_read_an_absent_label_as_empty(question: Matcher, expected: list[str]) -> None:
    store = Store()
    labels: list[dict[str, str]] = [{}, {"rank": "1"}, {"rank": "0", "task_id": "t"}]
    metric = tuple(Labels({"__name__": "m", **own}) for own in labels)
    store.append(Flush(10, metric, np.array([1.0, 2.0, 3.0])))
    assert list(rows(store, [question])) == expected


def event(time_ms: int, flush_ms: int, task_id: str = "t") -> TaskEvent:
    return TaskEvent(time_ms, flush_ms, "retransmit", "n", task_id, "0", 1)


def test_events_are_seen_only_by_evaluations_from_their_flush_on() -> None:
    store = Store()
    late, early, other = event(9, 10), event(5, 20), event(6, 20, "u")
    store.append(Flush(10, (), np.empty(0), (late,)))
    store.append(Flush(20, (), np.empty(0), (early, other)))
    assert store.events("t", 0, 100, 10) == [late]
    assert store.events("t", 0, 100, 20) == [early, late]


def test_events_are_bounded_and_counted() -> None:
    store = Store(max_events=2)
    store.append(Flush(10, (), np.empty(0), tuple(event(i, 10) for i in range(5))))
    assert [found.time_ms for found in store.events("t", 0, 100, 10)] == [3, 4]
    assert store.dropped_total == {"event_limit": 3}


def test_readers_see_whole_flushes_while_the_writer_writes() -> None:
    store = Store(window_ms=500_000)
    torn: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            found = store.select((), 0, 10**12)
            if found and not np.array_equal(found[0].values, found[1].values):
                torn.append("torn")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for step in range(300):
        store.append(flush(step * 10_000, a=step, b=step))
    done.set()
    for reader in readers:
        reader.join()
    assert not torn


WRITES = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.dictionaries(st.sampled_from("abcdef"), st.floats(allow_nan=False), min_size=1),
    ),
    max_size=200,
)


@settings(max_examples=60, deadline=None)
@given(writes=WRITES, start=st.integers(-1, 201), length=st.integers(0, 200))
def test_select_agrees_with_a_dict_of_lists(
    writes: list[tuple[int, dict[str, float]]], start: int, length: int
) -> None:
    store, reference = Store(), dict[str, list[tuple[int, float]]]()
    dropped = 0
    for time_ms, values in writes:
        store.append(flush(time_ms, **values))
        for name, value in values.items():
            samples = reference.setdefault(name, [])
            if samples and samples[-1][0] >= time_ms:
                dropped += 1
            else:
                samples.append((time_ms, value))
    expected = {
        name: cut
        for name, samples in sorted(reference.items())
        if (cut := [sample for sample in samples if start <= sample[0] <= start + length])
    }
    found = {
        series.labels.name: list(
            zip(series.timestamps_ms.tolist(), series.values.tolist(), strict=True)
        )
        for series in store.select((), start, start + length)
    }
    assert found == expected
    assert list(found) == list(expected)
    assert store.dropped_total["out_of_order"] == dropped


def test_flushes_of_the_same_series_are_known_by_their_labels_until_one_is_given_up() -> None:
    store = Store(max_series=2)
    labels = (Labels.of(__name__="a"), Labels.of(__name__="b"))
    for time_ms in (1000, 2000, 2000, 3000):
        store.append(Flush(time_ms, labels, np.array([time_ms, STALE_NAN])))
    assert store.dropped_total == {"out_of_order": 2}
    store.append(Flush(4000, (Labels.of(__name__="c"),), np.array([1.0])))
    assert store.dropped_total["evicted_series"] == 1
    store.append(Flush(5000, labels, np.array([5000.0, 6.0])))
    assert store.dropped_total["series_limit"] == 1
    found = {one.labels.name: one.values.tolist() for one in store.select((), 0, 9000)}
    assert found == {"a": [1000, 2000, 3000, 5000], "c": [1]}
