"""The user's own probes, as `probes: custom: probes:` has them. See README.md.

Source: uprobes at entries, and exits where durations are taken, of the functions that are named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from engine.readings import ProbeStatus, Produced
from probes.bpf.errors import UnavailableError
from probes.custom.running import Running
from probes.custom.settings import CustomSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import ProbeOptions, Reading


class CustomProbe:
    """See the module. One thread uses it."""

    name = "custom"
    Config: ClassVar[type[CustomSettings]] = CustomSettings

    def __init__(self) -> None:
        self._running: Running | None = None
        self._off = ProbeStatus(self.name, "off", "not_started")

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Load, and attach to every library that is named and mapped now."""
        known = {k: v for k, v in options.settings.items() if k in CustomSettings.model_fields}
        settings = CustomSettings.model_validate(known)
        if not settings.probes:
            detail = "there are no probes of your own"
            self._off = ProbeStatus(
                self.name, "off", "disabled", detail, "probes: custom: probes: in stallwatch.yaml"
            )
            return self._off
        try:
            self._running = Running(self.name, settings, emit)
        except UnavailableError as error:
            self._off = error.status(self.name)
            return self._off
        self.poll()
        return self.status()

    def poll(self) -> None:
        """Follow processes and tell slow calls."""
        if self._running is not None:
            self._running.poll()

    def produced(self) -> Produced:
        """Entries and exits, and slow calls, that the kernel saw."""
        return Produced(self.name) if self._running is None else self._running.produced()

    def collect(self) -> None:
        """Emit what every process called since the last time."""
        if self._running is not None:
            self._running.collect()

    def status(self) -> ProbeStatus:
        """The present state."""
        return self._off if self._running is None else self._running.status()

    def stop(self) -> None:
        """Detach."""
        if self._running is not None:
            self._running.close()
            self._off = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")
        self._running = None
