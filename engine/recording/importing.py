"""Other data as a recording: the same files that the agent writes, without the journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.dataset.dataset import cut
from engine.dataset.errors import DataError
from engine.recording.reading import Recording, is_recording
from engine.recording.recorder import HOUR_MS, Recorder
from engine.recording.retention import FOREVER
from rules.slotted import dataclass

if TYPE_CHECKING:
    from engine.dataset.dataset import Dataset
    from engine.flush import TaskEvent

_EVER = 1 << 62
DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Imported:
    """What came in."""

    series: int
    samples: int
    files: int


def import_data(data: Dataset, folder: str) -> Imported:
    """Add data to a recording, which is made if it is not there yet.

    Outputs of rules stay flagged; from a recording its events, evaluated times, restarts and
    rules come along. Raises DataError.
    """
    if Path(folder).is_dir() and any(Path(folder).iterdir()) and not is_recording(folder):
        raise DataError(
            folder, "is neither empty nor a recording", "give the path of a folder to be made"
        )
    origin = data if isinstance(data, Recording) else None
    recorder = Recorder(
        folder,
        node=origin.node if origin else "",
        flush_interval_ms=origin.flush_interval_ms if origin else 10_000,
        retention=FOREVER,
    )
    try:
        found = _copy(data, recorder)
        if origin is not None:
            for entry in origin.history():
                recorder.adopt(entry)
    finally:
        recorder.close()
    return found


def _copy(data: Dataset, recorder: Recorder) -> Imported:
    plain = data.select((), -_EVER, _EVER)
    derived = data.select_derived((), -_EVER, _EVER)
    events = data.all_events(-_EVER, _EVER)
    both = [*plain, *derived]
    samples = sum(one.values.size for one in both)
    if not samples:
        raise DataError(recorder.path, "there are no samples to import")
    start_ms = min(int(one.timestamps_ms[0]) for one in both)
    end_ms = max(int(one.timestamps_ms[-1]) for one in both)
    width = _width(end_ms - start_ms)
    files = 0
    times = {id(one.timestamps_ms): one.timestamps_ms for one in both}
    periods = np.unique(np.concatenate([np.unique(own // width) for own in times.values()]))
    for low in (periods * width).tolist():
        high = low + width - 1
        files += recorder.write_hour(low, cut(plain, low, high), cut(derived, low, high))
    by_period: dict[int, list[TaskEvent]] = {}
    for event in events:
        by_period.setdefault(event.flush_ms // width, []).append(event)
    for period, own in sorted(by_period.items()):
        files += recorder.write_hour(period * width, (), (), own)
    return Imported(len({one.labels for one in both}), samples, files)


def _width(span_ms: int) -> int:
    """Hours for a week, days for two years, months beyond: files stay few and not too small."""
    if span_ms <= 7 * DAY_MS:
        return HOUR_MS
    return DAY_MS if span_ms <= 730 * DAY_MS else 30 * DAY_MS
