"""Recordings on disk: a folder of hourly Parquet with a manifest and a journal of the open hour."""

from engine.recording.lock import FolderLockedError
from engine.recording.log import RecordingLog
from engine.recording.reading import Recording, open_recording
from engine.recording.recorder import Recorder
from engine.recording.retention import Keep, Retention
from engine.recording.sealing import seal_apart
from engine.recording.slots import Slots
from engine.recording.unrecorded import Unrecorded
from engine.recording.window import read_window

__all__ = [
    "FolderLockedError",
    "Keep",
    "Recorder",
    "Recording",
    "RecordingLog",
    "Retention",
    "Slots",
    "Unrecorded",
    "open_recording",
    "read_window",
    "seal_apart",
]
