"""From the configuration's receivers to the integrations that workers serve."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from notifiers.alertmanager.resending import Resender
from notifiers.dispatch.limiting import RateLimit
from notifiers.heartbeat.pulse import Pulse
from notifiers.origin import Origin
from notifiers.pictures.picture import Pictures
from notifiers.receivers.alertmanager import AlertmanagerReceiver
from notifiers.receivers.apprise import AppriseTarget
from notifiers.receivers.heartbeat import HeartbeatReceiver
from notifiers.receivers.receiver import ReceiverSettings
from notifiers.slack.web import SlackTarget
from notifiers.upkeep import Heartbeat, Remembering, Resending
from notifiers.worker import Integration
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

    from engine.config.model import Config, IntegrationConfig, ReceiverConfig
    from notifiers.receivers.receiver import Receiver

GROUP = "stallwatch.receivers"


def integrations(config: Config) -> tuple[Integration, ...]:
    """Every target of every receiver.

    A key names receiver, kind and place in the list, as Alertmanager's notification log does,
    and the target's label where there are several: it must be the same after a restart.
    Raises StallwatchError for a kind that is not installed.
    """
    return tuple(
        _with_upkeep(found, config) for receiver in config.receivers for found in _of(receiver)
    )


def _with_upkeep(one: Integration, config: Config) -> Integration:
    origin, target = Origin.of(config), one.target
    interval_ms = config.evaluation_interval.ms
    if isinstance(target, AlertmanagerReceiver):
        resender = Resender(target.resend_ms)
        upkeep = Resending(target, one.key, origin, interval_ms, one.timeout_seconds, resender)
        return replace(one, upkeep=upkeep)
    if isinstance(target, SlackTarget) and target.strategy != "new":
        return replace(one, upkeep=Remembering(target.places, one.key))
    if isinstance(target, AppriseTarget) and target.wants_picture:
        target.pictures = Pictures.of(config)
        return replace(one, pictures=target.pictures)
    if isinstance(target, HeartbeatReceiver):
        pulse = Pulse(target.interval_ms, interval_ms)
        return replace(one, upkeep=Heartbeat(target, one.key, origin, pulse), hears=False)
    return one


def _of(receiver: ReceiverConfig) -> Iterator[Integration]:
    rate = receiver.rate_limit
    limit = None if rate is None else RateLimit(rate.messages, rate.per.ms)
    counts: dict[str, int] = {}
    for one in receiver.integrations:
        index = counts[one.kind] = counts.get(one.kind, -1) + 1
        built, settings = _build(one)
        targets = built.targets()
        for target in targets:
            key = f"{receiver.name}/{one.kind}/{index}"
            if len(targets) > 1:
                key = f"{key}/{target.label}"
            found = Integration(
                key, receiver.name, one.kind, target, built.send_resolved, limit=limit
            )
            if isinstance(settings, ReceiverSettings):
                found = replace(
                    found,
                    timeout_seconds=settings.timeout.seconds,
                    max_retry_age_seconds=settings.max_retry_age.seconds,
                )
            yield found


def _build(one: IntegrationConfig) -> tuple[Receiver, BaseModel]:
    found = [point for point in entry_points(group=GROUP) if point.name == one.kind]
    if not found:
        raise StallwatchError(f"stallwatch: there is no receiver kind '{one.kind}' installed")
    kind: Any = found[0].load()
    settings: BaseModel = one.parsed or kind.Config.model_validate(one.settings)
    receiver: Receiver = kind(settings)
    return receiver, settings
