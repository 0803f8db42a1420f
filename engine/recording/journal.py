"""The open hour: what was flushed, appended and made durable flush by flush.

A payload is one line of JSON and, for samples, int32 series numbers and float64 values after it.
Series numbers are those of one journal; a frame brings the labels of the series it uses first.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.flush import TaskEvent
from engine.labels import Labels
from engine.recording.framing import MAGIC, frame, scan, sync_folder, write_all
from engine.recording.slots import SlotLog
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.recording.slots import Run
    from engine.series import Float64Array, Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Samples of one time; `series[i]` is a number into the journal's labels."""

    time_ms: int
    derived: bool
    series: Int64Array
    values: Float64Array


@dataclass(slots=True, eq=False)
class JournalContent:
    """A journal read back. `torn_bytes`: what a kill left unfinished at its end."""

    labels: list[Labels] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    events: list[TaskEvent] = field(default_factory=list)
    log: list[tuple[int, str]] = field(default_factory=list)
    slots: SlotLog = field(default_factory=SlotLog)
    torn_bytes: int = 0


class Journal:
    """Appends to a new file. After an OSError the file is as before the call."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._numbers: dict[Labels, int] = {}
        # Nearly every flush has the labels of the one before.
        self._last: tuple[tuple[Labels, ...], bytes] = ((), b"")
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            write_all(self._descriptor, MAGIC)
            os.fsync(self._descriptor)
            sync_folder(str(Path(path).parent))
        except OSError:
            os.close(self._descriptor)
            Path(path).unlink(missing_ok=True)
            raise
        self.size = len(MAGIC)
        self._dirty = False

    def write_samples(
        self,
        time_ms: int,
        labels: Sequence[Labels],
        values: Float64Array,
        events: Sequence[TaskEvent] = (),
        *,
        derived: bool = False,
        durable: bool = False,
    ) -> None:
        """Append samples of one time and the events that came with them, in one frame."""
        added: dict[Labels, int] = {}
        last, numbers = self._last
        if labels != last:
            fresh = dict.fromkeys(own for own in labels if own not in self._numbers)
            added = {own: number for number, own in enumerate(fresh, len(self._numbers))}
            every = [added[own] if own in added else self._numbers[own] for own in labels]
            numbers = np.array(every, dtype="<i4").tobytes()
        head: dict[str, Any] = {"k": "samples", "t": time_ms, "n": len(labels)}
        if derived:
            head["derived"] = 1
        if added:
            head["new"] = [own.pairs for own in added]
        if events:
            head["events"] = [event_row(event) for event in events]
        body = numbers + np.ascontiguousarray(values, dtype="<f8").tobytes()
        self._append(head, body, durable=durable)
        self._numbers.update(added)
        if isinstance(labels, tuple):
            self._last = labels, numbers

    def write_slot(self, file: str, group: str, time_ms: int) -> None:
        """Append an evaluated time of a group."""
        self._append({"k": "slot", "file": file, "group": group, "t": time_ms})

    def write_run(self, file: str, group: str, run: Run, reason: str) -> None:
        """Append skipped times of a group, equally spaced."""
        start, end, step = run
        head = {"k": "slot", "file": file, "group": group, "t": start, "end": end, "step": step}
        self._append({**head, "reason": reason})

    def write_log(self, time_ms: int, line: str) -> None:
        """Append a line of the agent's own log."""
        self._append({"k": "log", "t": time_ms, "line": line})

    def close(self) -> None:
        """Make everything durable and close."""
        try:
            os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)

    def _append(self, head: dict[str, Any], body: bytes = b"", *, durable: bool = False) -> None:
        text = json.dumps(head, separators=(",", ":"), ensure_ascii=False)
        # A lone surrogate (a file name, a comm) has no UTF-8; Parquet would refuse the whole hour.
        content = frame(text.encode("utf-8", "replace") + b"\n" + body)
        if not os.fstat(self._descriptor).st_nlink:
            # Writing on would look well, and all of it be gone with the descriptor.
            raise FileNotFoundError(errno.ENOENT, "deleted while the agent runs; start it again")
        if self._dirty:
            self._cut()
        self._dirty = True
        try:
            write_all(self._descriptor, content)
            if durable:
                os.fsync(self._descriptor)
        except OSError:
            self._cut()
            raise
        self._dirty = False
        self.size += len(content)

    def _cut(self) -> None:
        """Remove what a failed write left: half a frame would hide every later one."""
        os.ftruncate(self._descriptor, self.size)
        os.lseek(self._descriptor, self.size, os.SEEK_SET)
        self._dirty = False


def read_journal(path: str) -> JournalContent:
    """Read a journal, whole or torn.

    Raises OSError, and ValueError, KeyError, TypeError or IndexError for frames that are whole
    and yet not ours.
    """
    found = scan(Path(path).read_bytes())
    content = JournalContent(torn_bytes=found.torn_bytes)
    for payload in found.payloads:
        head_text, _, body = payload.partition(b"\n")
        head = json.loads(head_text)
        if head["k"] == "samples":
            _take_samples(content, head, body)
        elif head["k"] == "slot":
            content.slots.add_run(
                head["file"],
                head["group"],
                (head["t"], head.get("end", head["t"]), head.get("step", 0)),
                head.get("reason"),
            )
        elif head["k"] == "log":
            content.log.append((head["t"], head["line"]))
    return content


def _take_samples(content: JournalContent, head: dict[str, Any], body: bytes) -> None:
    content.labels += [Labels((n, v) for n, v in pairs) for pairs in head.get("new", ())]
    count = head["n"]
    if count:
        series = np.frombuffer(body, dtype="<i4", count=count).astype(np.int64)
        values = np.frombuffer(body, dtype="<f8", offset=4 * count, count=count)
        if int(series.min()) < 0 or int(series.max()) >= len(content.labels):
            raise ValueError("a series number without labels")
        content.batches.append(Batch(head["t"], "derived" in head, series, values))
    content.events += [event_of_row(row) for row in head.get("events", ())]


def event_row(event: TaskEvent) -> list[Any]:
    """The eight values of an event, `fields` as pairs."""
    return [
        event.time_ms, event.flush_ms, event.kind, event.node, event.task_id, event.rank,
        event.pid, list(event.fields),
    ]  # fmt: skip


def event_of_row(row: Sequence[Any]) -> TaskEvent:
    """An event from its eight values, `fields` as pairs."""
    time_ms, flush_ms, kind, node, task_id, rank, pid, fields = row
    pairs = tuple((name, value) for name, value in fields)
    return TaskEvent(time_ms, flush_ms, kind, node, task_id, rank, pid, pairs)
