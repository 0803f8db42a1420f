"""What a script has loaded, three times: in memory, in the live window, and as a recording."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np

from engine.flush import Flush
from engine.recording import Recorder, open_recording
from engine.recording.retention import FOREVER
from engine.store import Store

from .storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.labels import Labels
    from engine.recording import Recording

    from .script import Load

_EVER_MS = 1 << 60


@dataclass
class Data:
    """All forms are made once and only when asked for; a load makes them anew."""

    memory: MemoryStorage = field(default_factory=MemoryStorage)
    _store: Store | None = None
    _recording: Recording | None = None
    _folder: tempfile.TemporaryDirectory[str] | None = None

    def load(self, command: Load) -> None:
        """Add samples. Raises ScriptError."""
        self.forget()
        self.memory.load(command)

    def forget(self) -> None:
        """Drop the forms that were made of the samples, and what they keep on disk."""
        self._store = self._recording = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    @property
    def store(self) -> Store:
        """The live window after flushes of all float samples."""
        if self._store is None:
            self._store = Store(window_ms=_EVER_MS)
            for flush in self._flushes():
                self._store.append(flush)
            if self._store.dropped_total:
                raise AssertionError(f"the live window refused {dict(self._store.dropped_total)}")
        return self._store

    @property
    def recording(self) -> Recording:
        """A recording of all float samples, closed and opened again."""
        if self._recording is None:
            self._folder = tempfile.TemporaryDirectory(prefix="promqltest-")
            # Durability costs a disk's round trip for each flush, and is tested elsewhere.
            with mock.patch.object(os, "fsync"), mock.patch.object(os, "fdatasync"):
                path = str(Path(self._folder.name, "recording"))
                recorder = Recorder(path, retention=FOREVER)
                for flush in self._flushes():
                    if not recorder.write(flush):
                        raise AssertionError(recorder.failing)
                recorder.close()
            self._recording = open_recording(path)
        return self._recording

    def _flushes(self) -> Iterator[Flush]:
        rows: dict[int, list[tuple[Labels, float]]] = {}
        for labels, samples in self.memory.samples.items():
            for time, sample in samples.items():
                if sample.histogram is None:
                    rows.setdefault(time, []).append((labels, sample.value))
        for time in sorted(rows):
            names = tuple(labels for labels, _ in rows[time])
            values = np.array([value for _, value in rows[time]], dtype=np.float64)
            yield Flush(time, names, values)
