"""What probes of libraries have in common: they are off, or something of theirs is running.

class GlooProbe(LibraryProbe):
    name, Config = "gloo", GlooSettings

    def open(self, given, emit):
        ...
        return Reporting(self.name, description, GlooReport, emit)
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar, Protocol

from engine.readings import ProbeStatus, Produced
from probes.bpf.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.config.model import Section
    from engine.readings import ProbeOptions, Reading

    Given = Mapping[str, object]
    Emit = Callable[[Reading], None]


class Running(Protocol):
    """Loaded programs that follow libraries. The methods are those of `engine.protocols.Probe`."""

    @property
    def pending(self) -> int:
        """Functions in files that are still to be attached."""
        ...

    def poll(self) -> None:
        """Follow libraries, attach, hand on events."""
        ...

    def produced(self) -> Produced:
        """The kernel's counters."""
        ...

    def collect(self) -> None:
        """Emit what every process did since the last call."""
        ...

    def status(self) -> ProbeStatus:
        """The present state."""
        ...

    def close(self) -> None:
        """Detach, and free what was loaded."""
        ...


class LibraryProbe(abc.ABC):
    """An `engine.protocols.Probe`; a subclass says by `open` what runs. One thread uses it."""

    name: str
    Config: ClassVar[type[Section]]

    def __init__(self) -> None:
        self.running: Running | None = None
        self._off = ProbeStatus(self.name, "off", "not_started")

    @abc.abstractmethod
    def open(self, given: Given, emit: Emit) -> Running:
        """Load. `given`: settings, fields of `Config`. Raises UnavailableError, nothing loaded."""

    def start(self, options: ProbeOptions, emit: Emit) -> ProbeStatus:
        """Load, and attach to every library that is mapped now."""
        try:
            self.running = self.open(options.settings, emit)
        except UnavailableError as error:
            self._off = error.status(self.name)
            return self._off
        self.poll()
        return self.status()

    def poll(self) -> None:
        """Attach to libraries that appeared, let go of those that nobody maps, hand on events."""
        if self.running is not None:
            self.running.poll()

    def produced(self) -> Produced:
        """The kernel's counters."""
        return Produced(self.name) if self.running is None else self.running.produced()

    def collect(self) -> None:
        """Emit what every process did since the last call."""
        if self.running is not None:
            self.running.collect()

    def status(self) -> ProbeStatus:
        """The present state."""
        return self._off if self.running is None else self.running.status()

    def stop(self) -> None:
        """Detach."""
        if self.running is not None:
            self.running.close()
            self._off = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")
        self.running = None
