"""Detaches in a thread of its own, because the kernel takes 0.1 to 0.3 s for each (RCU)."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from probes.bpf.attachment import Attachment


class Detacher:
    """Takes attachments off the collector's hands. The thread lives while there is work."""

    def __init__(self) -> None:
        self._waiting: deque[Attachment] = deque()
        self._changed = threading.Condition()
        self._working = False

    @property
    def pending(self) -> int:
        """Attachments that the kernel still holds."""
        with self._changed:
            return len(self._waiting) + self._working

    def add(self, attachments: Iterable[Attachment]) -> None:
        """Detach these, in order, soon."""
        with self._changed:
            self._waiting.extend(attachments)
            if self._waiting and not self._working:
                self._working = True
                threading.Thread(target=self._work, name="detach", daemon=True).start()

    def drain(self, timeout_seconds: float | None = None) -> bool:
        """Wait until all are detached; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._working, timeout_seconds)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._working = False
                    self._changed.notify_all()
                    return
                attachment = self._waiting.popleft()
            with contextlib.suppress(OSError):  # its file is closed either way
                attachment.detach()
