"""The configuration, as data.

Durations are `Interval`s (`.ms`, `.seconds`), sizes are bytes, secrets are pydantic SecretStr.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ByteSize, ConfigDict, Field, SkipValidation, field_validator
from pydantic_core import core_schema

from engine.alerts.matchers import Matcher
from engine.alerts.relabelling import RelabelRule
from engine.config.quantities import Address, Duration, Interval, PositiveDuration
from rules.source import Span

_DAY_MS = 86_400_000


class _Spelled:
    """Takes what it is given as it is, and shows the text of each element."""

    @staticmethod
    def __get_pydantic_core_schema__(_source: object, _handler: object) -> core_schema.CoreSchema:
        shown = core_schema.plain_serializer_function_ser_schema(
            lambda values: [str(value) for value in values]
        )
        return core_schema.any_schema(serialization=shown)


Matchers = Annotated[tuple[Matcher, ...], _Spelled]
RelabelRules = Annotated[tuple[RelabelRule, ...], _Spelled]
# Both ends belong to it.
Ranges = tuple[tuple[int, int], ...]


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


class FlappingConfig(Section):
    """When an alert fires and resolves too often to be told each time.

    From more than `changes` changes in `window` on, until none has come for `calm`.
    """

    enabled: bool = True
    changes: int = Field(default=6, ge=2, le=1000)
    window: PositiveDuration = Interval(1_800_000)
    calm: PositiveDuration = Interval(600_000)


class BaselinesConfig(Section):
    """How baselines learn: the clock of what is no plain selector, and what bounds their memory."""

    resolution: PositiveDuration = Interval(10_000)
    # Of data time: an element that has had no sample for so long is forgotten.
    ttl: PositiveDuration = Interval(7 * _DAY_MS)
    # Elements that each baseline remembers.
    max_series: int = Field(default=10_000, ge=1)
    # A series that is abnormal teaches nothing, until it has been so for as many points.
    pause_learning: bool = True
    accept_points: int = Field(default=120, ge=1)


class RouteConfig(Section):
    """A node of the routing tree: which alerts, who is told, and how they are grouped.

    None: as the node above, and Alertmanager's defaults at the root. `group_by` is `("...",)` for
    all labels.
    """

    receiver: str | None = None
    group_by: tuple[str, ...] | None = None
    group_wait: Duration | None = None
    group_interval: PositiveDuration | None = None
    repeat_interval: PositiveDuration | None = None
    matchers: Matchers = ()
    continue_: bool = False
    mute_time_intervals: tuple[str, ...] = ()
    active_time_intervals: tuple[str, ...] = ()
    routes: tuple[RouteConfig, ...] = ()


class InhibitSourceConfig(Section):
    """One of several alerts that all have to fire, and the labels that it shares."""

    matchers: Matchers = ()
    equal: tuple[str, ...] = ()


class InhibitRuleConfig(Section):
    """Alerts that match `target_matchers` are not told while one matches `source_matchers`.

    Both have the same values for the labels in `equal`. `sources` in their place: all of them have
    to fire.
    """

    name: str = ""
    source_matchers: Matchers = ()
    target_matchers: Matchers = ()
    equal: tuple[str, ...] = ()
    sources: tuple[InhibitSourceConfig, ...] = ()


class TimeInterval(Section):
    """Moments that satisfy all of these; None: any. An empty list holds nothing.

    `times` are minutes of the day, [start, end). A weekday counts from Sunday (0); a day of the
    month below 0 counts from its end (-1: the last). `location` is a name of the IANA database.
    """

    times: Ranges | None = None
    weekdays: Ranges | None = None
    days_of_month: Ranges | None = None
    months: Ranges | None = None
    years: Ranges | None = None
    location: str = "UTC"


class TimeIntervalConfig(Section):
    """A name for the moments that any of its intervals holds."""

    name: str
    time_intervals: tuple[TimeInterval, ...] = ()


class IntegrationConfig(Section):
    """One way to reach a receiver: `webhook_configs` and the like, one list element.

    `kind` is the receiver class's entry-point name (`webhook`), `settings` its fields with
    secrets resolved, `parsed` the same as the class's own `Config` (None when built by hand).
    """

    kind: str
    settings: dict[str, Any] = Field(repr=False)
    parsed: SkipValidation[BaseModel | None] = None
    span: SkipValidation[Span] = Span(0, 0)


class RateLimitConfig(Section):
    """How many messages each of a receiver's integrations gets within any `per`."""

    messages: int = Field(ge=1)
    per: PositiveDuration = Interval(3_600_000)

    @field_validator("per")
    @classmethod
    def _is_remembered(cls, per: Interval) -> Interval:
        """What was sent is known for a week."""
        if per.ms > 7 * _DAY_MS:
            raise ValueError("must be a week at most")
        return per


class ReceiverConfig(Section):
    """Everyone who is told together, under one name. `rate_limit` None: no limit."""

    name: str
    rate_limit: RateLimitConfig | None = None
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
    # What becomes of the labels of alerts before they are sent.
    alert_relabel_configs: RelabelRules = ()
    # Paths and globs; the loader makes them relative to the file.
    rule_files: tuple[str, ...] = ()
    queue: QueueConfig = QueueConfig()
    retention: RetentionConfig = RetentionConfig()
    baselines: BaselinesConfig = BaselinesConfig()
    receivers: tuple[ReceiverConfig, ...] = ()
    route: RouteConfig | None = None
    inhibit_rules: tuple[InhibitRuleConfig, ...] = ()
    # While a tier 2 alert of a task fires, those of tier 1 are not told.
    tier_inhibition: bool = True
    # "alertmanager": a resolution that is muted when its group speaks is dropped, as it does.
    compat: Literal["stallwatch", "alertmanager"] = "stallwatch"
    # Not with `compat: alertmanager`, which knows nothing of the kind.
    flapping: FlappingConfig = FlappingConfig()
    # Those of `mute_time_intervals`, the old spelling, stand among them.
    time_intervals: tuple[TimeIntervalConfig, ...] = ()
    # Globs of Go template files; the loader makes them relative to the file.
    templates: tuple[str, ...] = ()
    # An alertmanager.yml that routes, receivers and what belongs to them are read from.
    alertmanager_config: Path | None = None
    probes: dict[str, ProbeConfig] = Field(default_factory=dict)

    def probe(self, name: str) -> ProbeConfig:
        """A probe's section; without one, the probe runs with its defaults."""
        return self.probes.get(name, ProbeConfig())
