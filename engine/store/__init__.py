"""The in-memory window that live rules read."""

from engine.store.store import Store

__all__ = ["Store"]
