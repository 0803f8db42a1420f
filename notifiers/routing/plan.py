"""What a configuration says of routing: the tree, what inhibits, when nothing is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from notifiers.dispatch.flapping import FlapRule
from notifiers.inhibition import TIER_RULE, InhibitRule
from notifiers.routing.intervals import Intervals
from notifiers.routing.tree import Route, build_tree
from rules.promql.strings import quote
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.config.model import Config

# Where no route is written each alert is a group of its own, told at once, and its end with the
# next evaluation.
ALONE_INTERVAL_MS = 10_000


@dataclass(frozen=True, slots=True)
class Plan:
    """`keeps_owed` False: `compat: alertmanager`, which drops a resolution that is muted.

    `flapping` None: each change of an alert is told.
    """

    root: Route
    inhibit_rules: tuple[InhibitRule, ...] = (TIER_RULE,)
    times: Intervals = field(default_factory=lambda: Intervals(()))
    keeps_owed: bool = True
    flapping: FlapRule | None = None

    @classmethod
    def of(cls, config: Config) -> Plan:
        """The plan of a configuration; without a route every receiver hears of everything."""
        if config.route is None:
            root = everybody([receiver.name for receiver in config.receivers])
        else:
            root = build_tree(config.route)
        rules = tuple(map(InhibitRule.of, config.inhibit_rules))
        if config.tier_inhibition:
            rules = (*rules, TIER_RULE)
        keeps_owed = config.compat != "alertmanager"
        flapping = None
        if keeps_owed and config.flapping.enabled:
            own = config.flapping
            flapping = FlapRule(own.changes, own.window.ms, own.calm.ms)
        times = Intervals(config.time_intervals)
        return cls(root, rules, times, keeps_owed=keeps_owed, flapping=flapping)


def everybody(receivers: Sequence[str], interval_ms: int = ALONE_INTERVAL_MS) -> Route:
    """A tree that tells each receiver of every alert, one by one and at once."""
    if len(receivers) == 1:
        return _alone(receivers[0], "{}", interval_ms)
    routes = tuple(
        _alone(name, f"{{}}/{{receiver={quote(name)}}}", interval_ms) for name in receivers
    )
    return _alone("", "{}", interval_ms, routes)


def _alone(receiver: str, key: str, interval_ms: int, routes: tuple[Route, ...] = ()) -> Route:
    return Route(
        receiver=receiver,
        group_by=None,
        group_wait_ms=0,
        group_interval_ms=interval_ms,
        repeat_interval_ms=4 * 3_600_000,
        matchers=(),
        continue_=True,
        mute_time_intervals=(),
        active_time_intervals=(),
        routes=routes,
        key=key,
        id=key,
    )
