"""state.db: what survives a restart, kill -9 included."""

from engine.state.database import StateDb

__all__ = ["StateDb"]
