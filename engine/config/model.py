"""The configuration, as data.

Durations are `Interval`s (`.ms`, `.seconds`), sizes are bytes, secrets are pydantic SecretStr.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ByteSize, ConfigDict, Field, SkipValidation

from engine.config.quantities import Address, Duration, Interval, PositiveDuration
from rules.source import Span

_DAY_MS = 86_400_000


class Section(BaseModel):
    """A part of the configuration: immutable, and nothing in it is unknown."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, coerce_numbers_to_str=True
    )


class QueueConfig(Section):
    """Between probes and aggregation: bounded, and nothing in it waits longer than `max_wait`."""

    size: int = Field(default=10_000, ge=1)
    batch: int = Field(default=512, ge=1)
    max_wait: PositiveDuration = Interval(2_000)


class RetentionConfig(Section):
    """How long each class of data is kept; `max_bytes` bounds the whole recording."""

    metrics: PositiveDuration = Interval(30 * _DAY_MS)
    events: PositiveDuration = Interval(7 * _DAY_MS)
    log: PositiveDuration = Interval(7 * _DAY_MS)
    max_bytes: ByteSize = Field(default=ByteSize(10 * 1024**3), ge=1024**2)


class RouteConfig(Section):
    """Who is told."""

    receiver: str


class IntegrationConfig(Section):
    """One way to reach a receiver: `webhook_configs` and the like, one list element.

    `kind` is the receiver class's entry-point name (`webhook`), `settings` its fields with
    secrets resolved, `parsed` the same as the class's own `Config` (None when built by hand).
    """

    kind: str
    settings: dict[str, Any] = Field(repr=False)
    parsed: SkipValidation[BaseModel | None] = None
    span: SkipValidation[Span] = Span(0, 0)


class ReceiverConfig(Section):
    """Everyone who is told together, under one name."""

    name: str
    integrations: tuple[IntegrationConfig, ...] = ()


class NoSettings(Section):
    """`Config` of a probe that has nothing to set."""


class ProbeConfig(Section):
    """A probe's section: whether it runs, and what only it understands."""

    model_config = ConfigDict(extra="allow")

    enabled: bool = True

    @property
    def settings(self) -> dict[str, object]:
        """The probe's own settings."""
        return dict(self.model_extra or {})


def default_state_dir() -> Path:
    """`/var/lib/stallwatch` as root, else below $XDG_STATE_HOME.

    Also for a user without any home (a container's bare uid), who may have been given it.
    """
    system = Path("/var/lib/stallwatch")
    if os.geteuid() == 0:
        return system
    base = os.environ.get("XDG_STATE_HOME", "")
    try:
        return (Path(base) if base else Path.home() / ".local/state") / "stallwatch"
    except RuntimeError:  # neither $HOME nor an entry in passwd
        return system


class Config(Section):
    """Everything `stallwatch.yaml` can say; `Config()` is what holds without a file."""

    listen: Address = "127.0.0.1:9466"
    state_dir: Path = Field(default_factory=default_state_dir)
    cluster: str = ""
    node: str = Field(default_factory=socket.gethostname, min_length=1)
    flush_interval: PositiveDuration = Interval(10_000)
    evaluation_interval: PositiveDuration = Interval(10_000)
    lookback: PositiveDuration = Interval(300_000)
    restart_grace: Duration = Interval(3_600_000)
    external_labels: dict[str, str] = Field(default_factory=dict)
    external_url: str = ""
    # Paths and globs; the loader makes them relative to the file.
    rule_files: tuple[str, ...] = ()
    queue: QueueConfig = QueueConfig()
    retention: RetentionConfig = RetentionConfig()
    receivers: tuple[ReceiverConfig, ...] = ()
    route: RouteConfig | None = None
    probes: dict[str, ProbeConfig] = Field(default_factory=dict)

    def probe(self, name: str) -> ProbeConfig:
        """A probe's section; without one, the probe runs with its defaults."""
        return self.probes.get(name, ProbeConfig())
