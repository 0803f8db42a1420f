"""The routing of a configuration as an Alertmanager's configuration file spells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from notifiers.routing.plan import ALONE_INTERVAL_MS
from rules.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.config.model import (
        Config,
        InhibitRuleConfig,
        InhibitSourceConfig,
        RouteConfig,
        TimeInterval,
    )

_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_DURATIONS = ("group_wait", "group_interval", "repeat_interval")


def original(config: Config) -> str:
    """Routes, inhibition and time intervals as YAML that amtool and we read.

    Of a receiver only the name is told: addresses are often secrets, and not every kind is one
    that Alertmanager knows.
    """
    shown: dict[str, Any] = {}
    if config.route is not None:
        shown["route"] = _route(config.route)
    elif config.receivers:
        shown["route"] = _everybody([one.name for one in config.receivers])
    if config.inhibit_rules:
        shown["inhibit_rules"] = [_rule(one) for one in config.inhibit_rules]
    if config.time_intervals:
        shown["time_intervals"] = [
            {"name": one.name, "time_intervals": [_interval(part) for part in one.time_intervals]}
            for one in config.time_intervals
        ]
    shown["receivers"] = [{"name": one.name} for one in config.receivers]
    return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)


def _everybody(receivers: Sequence[str]) -> dict[str, Any]:
    """What holds where no route is written: each alert is told to every receiver, by itself."""
    alone: dict[str, Any] = {"receiver": receivers[0], "group_by": ["..."], "group_wait": "0s"}
    alone["group_interval"] = format_duration(ALONE_INTERVAL_MS)
    if len(receivers) > 1:
        alone["routes"] = [{"receiver": name, "continue": True} for name in receivers]
    return alone


def _route(route: RouteConfig) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if route.receiver is not None:
        shown["receiver"] = route.receiver
    if route.group_by is not None:
        shown["group_by"] = list(route.group_by)
    for name in _DURATIONS:
        interval = getattr(route, name)
        if interval is not None:
            shown[name] = format_duration(interval.ms)
    if route.matchers:
        shown["matchers"] = [str(one) for one in route.matchers]
    if route.continue_:
        shown["continue"] = True
    for name in ("mute_time_intervals", "active_time_intervals"):
        if names := getattr(route, name):
            shown[name] = list(names)
    if route.routes:
        shown["routes"] = [_route(one) for one in route.routes]
    return shown


def _rule(rule: InhibitRuleConfig) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": rule.name} if rule.name else {}
    if rule.sources:
        shown["sources"] = [_source(one) for one in rule.sources]
    if rule.source_matchers:
        shown["source_matchers"] = [str(one) for one in rule.source_matchers]
    if rule.target_matchers:
        shown["target_matchers"] = [str(one) for one in rule.target_matchers]
    if rule.equal:
        shown["equal"] = list(rule.equal)
    return shown


def _source(source: InhibitSourceConfig) -> dict[str, Any]:
    shown: dict[str, Any] = {"matchers": [str(one) for one in source.matchers]}
    return shown | {"equal": list(source.equal)} if source.equal else shown


def _interval(interval: TimeInterval) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if interval.times is not None:
        shown["times"] = [
            {"start_time": _clock(start), "end_time": _clock(end)} for start, end in interval.times
        ]
    names: dict[str, Callable[[int], str]] = {
        "weekdays": _WEEKDAYS.__getitem__,
        "days_of_month": str,
        "months": str,
        "years": str,
    }
    for name, spell in names.items():
        if (ranges := getattr(interval, name)) is not None:
            shown[name] = [_range(spell(first), spell(last)) for first, last in ranges]
    if interval.location != "UTC":
        shown["location"] = interval.location
    return shown


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first}:{last}"


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
