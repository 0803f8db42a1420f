from __future__ import annotations

import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from engine.dataset import open_data
from engine.flush import Flush, TaskEvent
from engine.labels import Labels
from engine.recording import Keep, Recorder, Retention, open_recording
from engine.recording import recorder as recorder_module
from engine.series import STALE_NAN, Series, stale_mask
from rules.errors import StallwatchError

HOUR = 3_600_000
START = 1_700_000_000_000 - 1_700_000_000_000 % HOUR
A, B = Labels.of(__name__="a", rank="0"), Labels.of(__name__="b", timestamp="x", value="y")
EVERY_KIND = [1.5, np.nan, np.inf, -np.inf, -0.0, 1e-320, float(STALE_NAN)]


def flush(time_ms: int, *values: float, events: tuple[TaskEvent, ...] = ()) -> Flush:
    return Flush(time_ms, (A, B)[: len(values)], np.array(values), events)


def event(time_ms: int, flush_ms: int) -> TaskEvent:
    return TaskEvent(time_ms, flush_ms, "retransmit", "n", "t", "0", 7, (("dport", 80), ("x", "é")))


def bits(series: list[Series]) -> list[tuple[Labels, list[int], list[int]]]:
    return [
        (one.labels, one.timestamps_ms.tolist(), one.values.view(np.uint64).tolist())
        for one in series
    ]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "recording")


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open hour"])
def test_what_was_written_is_read_bit_for_bit(folder: str, closed: bool) -> None:
    recorder = Recorder(folder, node="n1")
    expected = []
    for step, value in enumerate(EVERY_KIND):
        time_ms = START + step * 1_200_000  # crosses two hours
        assert recorder.write(flush(time_ms, value, step))
        expected.append((time_ms, int(np.array(value).view(np.uint64))))
    if closed:
        recorder.close()
    data = open_data(folder)
    a, b = data.select((), 0, 10**15)
    assert list(zip(a.timestamps_ms.tolist(), a.values.view(np.uint64).tolist(), strict=True)) == (
        expected
    )
    assert b.labels == B
    assert stale_mask(a.values).tolist() == [False] * 6 + [True]
    assert a.timestamps_ms is b.timestamps_ms
    assert (data.start_ms, data.end_ms, data.series_count) == (START, START + 7_200_000, 2)
    recorder.close()
    assert len(list(Path(folder).glob("metrics-*.parquet"))) == 3
    assert not list(Path(folder).glob("journal-*"))


def test_what_rules_recorded_is_flagged_and_left_out_of_a_replay(folder: str) -> None:
    recorder = Recorder(folder)
    recorder.write(flush(START, 1.0))
    recorder.write_samples(START, [Labels.of(__name__="job:a")], np.array([2.0]))
    for _ in range(2):
        recording = open_recording(folder)
        assert [str(one.labels) for one in recording.select((), 0, 10**15)] == ['a{rank="0"}']
        names = [one.labels.name for one in recording.with_derived().select((), 0, 10**15)]
        assert names == ["a", "job:a"]
        recorder.close()


def test_events_keep_the_flush_they_came_with(folder: str) -> None:
    recorder = Recorder(folder)
    first, second = event(START - 5, START), event(START - 3, START + 10_000)
    recorder.write(flush(START, 1.0, events=(first,)))
    recorder.write(flush(START + 10_000, 1.0, events=(second,)))
    for _ in range(2):
        recording = open_recording(folder)
        assert recording.events("t", 0, START, START) == [first]
        assert recording.events("t", 0, START, START + 10_000) == [first, second]
        assert not recording.events("other", 0, START, START + 10_000)
        recorder.close()


def test_evaluated_and_skipped_times_restarts_and_rules_are_logged(folder: str) -> None:
    recorder = Recorder(folder)
    recorder.log_restart(START)
    recorder.log_rules("abc", START)
    recorder.log_interval("f", "g", 10_000)
    times = [START + step * 10_000 for step in range(400)]
    for time_ms in times:
        recorder.write(flush(time_ms, 1.0))
        if time_ms == START + 50_000:
            recorder.log_skipped("f", "g", (time_ms, time_ms, 0), time_ms, "overrun")
        else:
            recorder.log_evaluated("f", "g", time_ms)
    for _ in range(2):
        recording = open_recording(folder)
        assert recording.slots("f", "g").skipped.tolist() == [START + 50_000]
        evaluated = [time_ms for time_ms in times if time_ms != START + 50_000]
        assert recording.slots("f", "g").evaluated.tolist() == evaluated
        assert recording.groups == (("f", "g"),)
        assert recording.restarts == (START,)
        assert recording.rules == ((START, "abc"),)
        assert recording.intervals == {("f", "g"): 10_000}
        recorder.close()
    assert len(Path(folder, "manifest.jsonl").read_text()) < 3_000


@pytest.mark.parametrize("cut", [1, 7, 8, 9, 60, 100])
def test_a_torn_tail_is_cut_and_counted(folder: str, cut: int) -> None:
    recorder = Recorder(folder)
    for step in range(3):
        recorder.write(flush(START + step, 1.0, 2.0))
    (journal,) = Path(folder).glob("journal-*")
    whole = journal.read_bytes()
    recorder.close()
    (metrics,) = Path(folder).glob("metrics-*")
    metrics.unlink()
    head = Path(folder, "manifest.jsonl").read_text().splitlines(keepends=True)[0]
    Path(folder, "manifest.jsonl").write_text(head)
    journal.write_bytes(whole[:-cut])
    before = open_recording(folder)
    assert before.end_ms == START + (1 if cut < 80 else 0)
    assert "unfinished write" in before.notices[0]
    again = Recorder(folder)
    assert again.recovered_bytes > 0
    again.close()
    assert bits(open_recording(folder).select((), 0, 10**15)) == bits(before.select((), 0, 10**15))


def test_a_second_start_within_the_hour_adds_a_file(folder: str) -> None:
    for step in range(3):
        recorder = Recorder(folder)
        recorder.write(flush(START + step, step))
        recorder.close()
    (a,) = open_recording(folder).select((), 0, 10**15)
    assert a.values.tolist() == [0, 1, 2]


def test_two_agents_cannot_write_one_folder(folder: str) -> None:
    recorder = Recorder(folder)
    with pytest.raises(StallwatchError, match=r"another agent \(pid \d+\) is recording"):
        Recorder(folder)
    recorder.close()
    Recorder(folder).close()


def test_what_comes_after_the_close_is_refused(folder: str) -> None:
    recorder = Recorder(folder)
    recorder.write(flush(START, 1.0))
    recorder.close()
    recorder.close()
    assert not recorder.write(flush(START + 10, 1.0))
    assert not recorder.log_restart(START)
    assert not list(Path(folder).glob("journal-*"))


def test_retention_is_by_class_age_and_size(folder: str) -> None:
    keep = Retention(metrics=Keep(5 * HOUR, 1 << 30), events=Keep(2 * HOUR, 1 << 30))
    recorder = Recorder(folder, retention=keep)
    for hour in range(10):
        time_ms = START + hour * HOUR
        recorder.write(flush(time_ms, 1.0, events=(event(time_ms, time_ms),)))
    recorder.close()
    recording = open_recording(folder)
    assert recording.start_ms == START + 4 * HOUR
    assert len(list(Path(folder).glob("events-*"))) == 3
    small = Recorder(folder, retention=Retention(metrics=Keep(99 * HOUR, 4_000)))
    small.close()
    assert sum(path.stat().st_size for path in Path(folder).glob("metrics-*")) <= 4_000


def test_a_sample_from_a_wrong_future_expires_nothing(folder: str) -> None:
    now_ms = int(time.time() * 1000)
    now_ms -= now_ms % 1000
    recorder = Recorder(folder)
    recorder.write(flush(now_ms, 1.0))
    recorder.write(flush(now_ms + 365 * 24 * HOUR, 2.0))
    recorder.close()
    Recorder(folder).close()
    assert open_recording(folder).start_ms == now_ms


def test_a_failure_is_told_while_another_thread_writes_what_was_logged_of_it(folder: str) -> None:
    waiting: list[bool] = []

    def tell(_why: str) -> None:
        # Whoever logs may wait for a thread that logs too, and that writes its line here.
        other = threading.Thread(target=recorder.write_log, args=(START, "{}"), daemon=True)
        other.start()
        other.join(5)
        waiting.append(other.is_alive())

    recorder = Recorder(folder, on_failure=tell)
    assert recorder.write(flush(START, 1.0))
    next(Path(folder).glob("journal-*")).unlink()
    assert not recorder.write(flush(START + 1, 1.0))
    assert waiting == [False]
    recorder.close()


def test_a_full_disk_loses_flushes_not_the_agent_and_recording_resumes(folder: str) -> None:
    seen: list[str] = []
    recorder = Recorder(folder, on_failure=seen.append)
    assert recorder.write(flush(START, 1.0))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    try:
        failed = [recorder.write(flush(START + step, 2.0)) for step in range(1, 5)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert failed[-1] is False
    assert recorder.write_failures_total == failed.count(False)
    assert seen == [recorder.failing]
    assert "File too large" in str(recorder.failing)
    assert recorder.write(flush(START + 10, 3.0))
    assert recorder.failing is None
    recorder.close()
    (a,) = open_recording(folder).select((), 0, 10**15)
    written = [START] + [START + step for step, ok in enumerate(failed, 1) if ok] + [START + 10]
    assert a.timestamps_ms.tolist() == written


WRITER = """
    import sys, numpy as np
    from engine.flush import Flush
    from engine.labels import Labels
    from engine.recording import Recorder
    labels = tuple(Labels.of(__name__="m", i=str(i)) for i in range(40))
    recorder = Recorder(sys.argv[1])
    t = int(sys.argv[2])
    while True:
        t += 60_000
        assert recorder.write(Flush(t, labels, np.full(40, float(t))))
        print(t, flush=True)
"""


def test_kill_9_at_any_instant_loses_no_acknowledged_flush(folder: str) -> None:
    acknowledged: list[int] = []
    random = np.random.default_rng(7)
    last = START
    for _ in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), folder, str(last)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        acknowledged.append(int(writer.stdout.readline()))
        time.sleep(float(random.uniform(0, 0.4)))
        writer.kill()
        acknowledged += [int(line) for line in writer.stdout.read().splitlines()]
        writer.wait()
        last = acknowledged[-1] + 60_000
        series = open_recording(folder).select((), 0, 10**15)
        assert len(series) == 40
        for one in series:
            assert set(acknowledged) <= set(one.timestamps_ms.tolist())
            assert np.array_equal(one.values, one.timestamps_ms.astype(np.float64))
    Recorder(folder).close()
    (one, *_) = open_recording(folder).select((), 0, 10**15)
    assert set(acknowledged) <= set(one.timestamps_ms.tolist())


def test_the_manifest_is_bounded_and_keeps_what_still_counts(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "CONDENSE_BYTES", 2_000)
    recorder = Recorder(folder, retention=Retention(metrics=Keep(3 * HOUR, 1 << 30)))
    recorder.log_rules("abc", START)
    recorder.log_interval("f", "g", 10_000)
    times = [START + hour * HOUR for hour in range(40)]
    for time_ms in times:
        recorder.write(flush(time_ms, 1.0))
        recorder.log_evaluated("f", "g", time_ms)
    recorder.close()
    recording = open_recording(folder)
    assert recording.slots("f", "g").evaluated.tolist()[-4:] == times[-4:]
    assert recording.rules == ((START, "abc"),)
    assert recording.intervals == {("f", "g"): 10_000}
    assert (recording.start_ms, recording.end_ms) == (times[-4], times[-1])
    assert not recording.notices
    assert len(Path(folder, "manifest.jsonl").read_bytes()) < 6_000


def test_a_clock_that_leaps_over_decades_leaves_a_log_that_can_be_read(folder: str) -> None:
    leap = (START - START % 10_000 - 10_000 * 200_000_000, START - START % 10_000, 10_000)
    recorder = Recorder(folder)
    recorder.log_skipped("f", "g", leap, START, "overrun")
    recorder.close()
    skipped = open_recording(folder).slots("f", "g").skipped
    assert (len(skipped), int(skipped[-1])) == (1_000_000, leap[1])


def test_a_recording_that_was_deleted_says_so_instead_of_writing_into_nothing(folder: str) -> None:
    told: list[str] = []
    recorder = Recorder(folder, on_failure=told.append)
    assert recorder.write(flush(START, 1.0))
    for path in Path(folder).iterdir():
        path.unlink()
    assert not recorder.write(flush(START + 10_000, 2.0))
    assert not recorder.write(flush(START + 20_000, 3.0))
    assert (len(told), recorder.write_failures_total) == (1, 2)
    assert recorder.failing is not None
    assert "deleted" in recorder.failing
