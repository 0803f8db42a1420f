"""Recordings on disk: a folder of hourly Parquet with a manifest and a journal of the open hour."""

from engine.recording.reading import Recording, open_recording
from engine.recording.recorder import Recorder
from engine.recording.retention import Keep, Retention
from engine.recording.slots import Slots

__all__ = ["Keep", "Recorder", "Recording", "Retention", "Slots", "open_recording"]
