"""The live window read back at a start, in a child: only its samples and events reach the agent.

The child writes pickles: a row for each time that has samples, then the events, some at a time: two
hours may have had millions, of which the agent keeps the latest. A pickle runs what it says, and
these come from code of our own over a pipe of our own.
"""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from engine.dataset.errors import DataError
from engine.flush import TaskEvent
from engine.labels import Labels
from engine.recording import child as children
from engine.recording.journal import event_of_row, event_row
from engine.recording.reading import open_recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from engine.recording.reading import Recording
    from engine.series import Float64Array

EVENTS_IN_ROW = 1000
# A time, the labels and values of its samples, and events.
Row = tuple[int, list[Labels], "Float64Array", list[TaskEvent]]


def read_window(path: str, start_ms: int, end_ms: int) -> Iterator[Row]:
    """Times in order, each with its samples; the last rows have the events, by `flush_ms`.

    Raises DataError, after what could be read.
    """
    try:
        child = children.start(__name__, path, str(start_ms), str(end_ms))
    except OSError as error:
        raise DataError(path, f"cannot be read back: {error.strerror}") from None
    with child:
        try:
            yield from _rows(cast("BinaryIO", child.stdout))
        except (EOFError, pickle.UnpicklingError):
            _, errors = child.communicate()
            why = children.ending(child, errors)
            raise DataError(path, f"cannot be read back: the process that does it {why}") from None
        finally:
            child.kill()


def main(path: str, start_ms: str, end_ms: str) -> None:
    """The child: writes rows to standard output."""
    try:
        _write(sys.stdout.buffer, open_recording(path), int(start_ms), int(end_ms))
    except DataError as error:
        pickle.dump(("refused", error.place, error.what, error.hint), sys.stdout.buffer)


def _rows(stream: BinaryIO) -> Iterator[Row]:
    """Raises DataError for what the child tells; EOFError when it ended before it was done."""
    known: list[Labels] = []
    while (found := pickle.load(stream))[0] != "done":  # noqa: S301 - see the module
        if found[0] == "refused":
            raise DataError(*found[1:])
        _, time_ms, fresh, numbers, values, events = found
        known += [Labels((_one(name), _one(value)) for name, value in own) for own in fresh]
        labels = [known[own] for own in numbers]
        yield time_ms, labels, values, [_event(row) for row in events]


def _write(stream: BinaryIO, recording: Recording, start_ms: int, end_ms: int) -> None:
    series = recording.with_derived().select((), start_ms, end_ms)
    numbers = np.repeat(np.arange(len(series)), [one.timestamps_ms.size for one in series])
    times = np.concatenate([np.empty(0, np.int64), *(one.timestamps_ms for one in series)])
    values = np.concatenate([np.empty(0), *(one.values for one in series)])
    order = np.argsort(times, kind="stable")
    every, firsts = np.unique(times[order], return_index=True)
    fresh = [one.labels.pairs for one in series]
    for time_ms, own in zip(every.tolist(), np.split(order, firsts)[1:], strict=True):
        pickle.dump(("row", time_ms, fresh, numbers[own].tolist(), values[own], []), stream)
        fresh = []
    events = sorted(recording.all_events(start_ms, end_ms), key=lambda event: event.flush_ms)
    for first in range(0, len(events), EVENTS_IN_ROW):
        some = events[first : first + EVENTS_IN_ROW]
        rows = [event_row(event) for event in some]
        pickle.dump(("row", some[-1].flush_ms, [], [], np.empty(0), rows), stream)
    pickle.dump(("done",), stream)


def _event(row: list[Any]) -> TaskEvent:
    *plain, fields = row
    return event_of_row([*map(_one, plain), [(_one(name), _one(value)) for name, value in fields]])


def _one(value: Any) -> Any:
    """The one string of all that are equal: labels and fields say the same few over and over."""
    return sys.intern(value) if type(value) is str else value
