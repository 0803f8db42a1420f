"""Lets whoever waits for the next poll be woken before it: by a ring that fills, or by a stop.

A process has one. Probes register descriptors of BPF rings, which become readable for a moment when
the kernel side rings; the collector waits. Edge-triggered: what lies unread in a ring and was not
rung for does not wake anybody.
"""

from __future__ import annotations

import contextlib
import os
import select


class Doorbell:
    """An epoll over the registered descriptors. `rung_total`: how often it ended a wait."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._own = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._own, select.EPOLLIN)
        self.rung_total = 0

    def add(self, fd: int) -> None:
        """A descriptor that rings."""
        self._poll.register(fd, select.EPOLLIN | select.EPOLLET)

    def remove(self, fd: int) -> None:
        """Before it is closed. Unknown ones are fine."""
        with contextlib.suppress(OSError):
            self._poll.unregister(fd)

    def ring(self) -> None:
        """End the present wait, or the next one; from any thread."""
        os.eventfd_write(self._own, 1)

    def wait(self, timeout_seconds: float) -> bool:
        """Whether it rang before the time was over."""
        rang = self._poll.poll(max(0.0, timeout_seconds))
        if not rang:
            return False
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._own)
        self.rung_total += 1
        return True


DOORBELL = Doorbell()
