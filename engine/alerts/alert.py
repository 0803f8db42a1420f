"""An alert as data: what every later stage (API, delivery, dry-run output) sees."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from rules.slotted import dataclass

if TYPE_CHECKING:
    from engine.labels import Labels

EvidenceEntry: TypeAlias = dict[str, str | int | float]


@dataclass(frozen=True, slots=True)
class Inhibited:
    """An alert that another one keeps back: the labels that are sent, since when it fires (ms)."""

    labels: Labels
    since_ms: int


class AlertState(str, Enum):
    """Prometheus' states, plus resolved: it fired and does so no more."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert of one rule. Times are unix milliseconds; a time not reached yet is None.

    `labels` include `alertname` and are the identity. `value` is that of the last evaluation in
    which the expression held. `last_evaluation_ms` is the last evaluation in which it was pending
    or firing. `evidence` is never part of the identity. `inhibited`, in a message: the alerts that
    this one keeps back, those that fire for longest first; once it is over, that it gives back.
    """

    labels: Labels
    annotations: dict[str, str]
    state: AlertState
    value: float
    active_at_ms: int
    fired_at_ms: int | None = None
    resolved_at_ms: int | None = None
    last_evaluation_ms: int | None = None
    evidence: tuple[EvidenceEntry, ...] = ()
    generator_url: str = ""
    rule_file: str = ""
    group: str = ""
    keep_firing_since_ms: int | None = None
    inhibited: tuple[Inhibited, ...] = ()


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Somebody has seen an alert. `at_ms`: unix milliseconds."""

    author: str
    comment: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Suppression:
    """What keeps notifications of an alert back, as Alertmanager's AlertStatus names it.

    Ids of silences, fingerprints of the alerts that inhibit it, names of the time intervals that
    mute its group. `inhibitors`: labels of the alerts that inhibit it; `inhibits`: what it keeps
    back itself. `dropped`: relabelling keeps it from everybody. `acknowledgement`: nobody is
    told of it again.
    """

    silenced_by: tuple[str, ...] = ()
    inhibited_by: tuple[str, ...] = ()
    muted_by: tuple[str, ...] = ()
    inhibitors: tuple[Labels, ...] = ()
    inhibits: tuple[Inhibited, ...] = ()
    dropped: bool = False
    acknowledgement: Acknowledgement | None = None
