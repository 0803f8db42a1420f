"""state.db: what survives a restart, kill -9 included."""

from engine.state.database import StateDb
from engine.state.lock import StateLock, StateLockedError

__all__ = ["StateDb", "StateLock", "StateLockedError"]
