"""A file of delivery tests as data, every part with its place. Times are milliseconds.

Times within a test count from its start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine.alerts.matchers import Matcher
    from engine.labels import Labels
    from engine.ruletest.model import Scenario, Suite
    from rules.document import Scalar
    from rules.source import Source, Span


@dataclass(frozen=True, slots=True)
class StatedAlert:
    """An alert that the test itself states. `ends_ms` None: it fires on."""

    span: Span
    labels: Labels
    annotations: Mapping[str, str]
    starts_ms: int
    ends_ms: int | None


@dataclass(frozen=True, slots=True)
class StatedSilence:
    """A silence that holds from its start to before its end; `ends_ms` None: it does not end."""

    span: Span
    matchers: tuple[Matcher, ...]
    starts_ms: int
    ends_ms: int | None


@dataclass(frozen=True, slots=True)
class WantedAlert:
    """One alert of a message: all matchers hold. `text`: as it stands in the file."""

    matchers: tuple[Matcher, ...]
    text: str


Wanted: TypeAlias = "tuple[WantedAlert, ...] | int"
"""The alerts that a message must tell of, each by itself, or how many there must be."""


@dataclass(frozen=True, slots=True)
class ExpectedMessage:
    """A message that a receiver must get. `integration`, `reason`: "" for any.

    `named`: the receiver, with its place.
    """

    span: Span
    at_ms: int
    named: Scalar
    firing: Wanted = ()
    resolved: Wanted = ()
    reason: str = ""
    integration: str = ""

    @property
    def receiver(self) -> str:
        """Its name."""
        return self.named.value


@dataclass(frozen=True, slots=True)
class DeliveryScenario:
    """One test.

    `rules`: its name, place and start, the series that rules read, and until when. `receivers`:
    those whose messages are looked at, with their places; (): all. `place`: where to point for
    messages that nobody expected.
    """

    rules: Scenario
    place: Span
    alerts: tuple[StatedAlert, ...] = ()
    silences: tuple[StatedSilence, ...] = ()
    messages: tuple[ExpectedMessage, ...] = ()
    receivers: tuple[Scalar, ...] = ()
    until_ms: int | None = None

    @property
    def latest_ms(self) -> int:
        """The latest time that the test names."""
        times = [0, *(message.at_ms for message in self.messages)]
        times += [time for one in self.alerts for time in (one.starts_ms, one.ends_ms or 0)]
        times += [time for one in self.silences for time in (one.starts_ms, one.ends_ms or 0)]
        longest = max((len(one.sequence.values) for one in self.rules.series), default=0)
        return max(*times, (longest - 1) * self.rules.interval_ms)


@dataclass(frozen=True, slots=True)
class DeliverySuite:
    """A file. `config`: where routes and receivers are, and whether that is an alertmanager.yml."""

    source: Source = field(repr=False, compare=False)
    config: Path
    config_span: Span
    is_alertmanagers: bool
    rules: Suite
    scenarios: tuple[DeliveryScenario, ...] = ()
