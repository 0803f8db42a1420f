"""Detaches in threads of their own, because the kernel takes 0.05 to 0.3 s for each (RCU)."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from probes.bpf.attachment import Attachment

# Links wait for RCU side by side: forty take as long as two. Perf events wait one by one anyway.
MAX_THREADS = 16


class Detacher:
    """Takes attachments off the collector's hands. Its threads live while there is work."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Hashable, Sequence[Attachment]]] = deque()
        self._owners: Counter[Hashable] = Counter()
        self._changed = threading.Condition()
        self._working = 0
        self._held = 0

    @property
    def pending(self) -> int:
        """Probes that the kernel still holds."""
        with self._changed:
            return self._held

    def holds(self, owner: Hashable) -> bool:
        """Whether something that this owner had is still attached."""
        with self._changed:
            return self._owners[owner] > 0

    def add(self, owner: Hashable, attachments: Sequence[Attachment]) -> None:
        """Detach these, in their order, soon."""
        if not attachments:
            return
        with self._changed:
            self._owners[owner] += 1
            self._held += sum(each.places for each in attachments)
            self._waiting.append((owner, attachments))
            if self._working < MAX_THREADS:
                self._working += 1
                threading.Thread(target=self._work, name="detach", daemon=True).start()

    def drain(self, timeout_seconds: float | None = None) -> bool:
        """Wait until all are detached; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._working, timeout_seconds)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._working -= 1
                    self._changed.notify_all()
                    return
                owner, attachments = self._waiting.popleft()
            for attachment in attachments:
                with contextlib.suppress(OSError):  # its file is closed either way
                    attachment.detach()
            with self._changed:
                self._held -= sum(each.places for each in attachments)
                self._owners[owner] -= 1
                self._owners += Counter()  # drops what is zero
