"""The agent's own log, the third class of recorded data: JSON lines with their own retention."""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.recording.recorder import Recorder
    from engine.recording.unrecorded import Unrecorded


class RecordingLog(logging.Handler):
    """Writes each log record to a recording: `time`, `level`, `logger`, `thread`, `message`.

    A record that is made while one is written (the recorder's own trouble) is left out, since
    it could only make more of its kind.
    """

    def __init__(self, recorder: Recorder | Unrecorded) -> None:
        super().__init__()
        self._recorder = recorder
        self._busy = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        if getattr(self._busy, "writing", False):
            return
        self._busy.writing = True
        try:
            fields = {
                "time": round(record.created, 3),
                "level": record.levelname.lower(),
                "logger": record.name,
                "thread": record.threadName,
                "message": self.format(record),
            }
            self._recorder.write_log(int(record.created * 1000), json.dumps(fields))
        finally:
            self._busy.writing = False
