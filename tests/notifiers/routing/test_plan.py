from __future__ import annotations

from engine.alerts.matchers import parse_matchers
from engine.config.model import (
    Config,
    FlappingConfig,
    InhibitRuleConfig,
    ReceiverConfig,
    RouteConfig,
)
from engine.config.quantities import Interval
from engine.labels import Labels
from notifiers.dispatch.flapping import FlapRule
from notifiers.inhibition import TIER_RULE
from notifiers.routing.plan import Plan

LABELS = Labels.of(alertname="A", node="n1")


def test_without_a_route_each_receiver_hears_of_each_alert_alone_and_at_once() -> None:
    config = Config(receivers=(ReceiverConfig(name="a"), ReceiverConfig(name="b")))
    taken = Plan.of(config).root.match(LABELS)
    assert [route.receiver for route in taken] == ["a", "b"]
    assert len({route.key for route in taken}) == 2
    for route in taken:
        assert route.group_labels(LABELS) == LABELS.to_dict()
        assert route.group_wait_ms == 0


def test_a_lone_receiver_has_the_root_itself() -> None:
    (route,) = Plan.of(Config(receivers=(ReceiverConfig(name="a"),))).root.match(LABELS)
    assert (route.receiver, route.key) == ("a", "{}")


def test_a_route_that_is_written_means_what_it_means_in_alertmanager() -> None:
    config = Config(receivers=(ReceiverConfig(name="a"),), route=RouteConfig(receiver="a"))
    (route,) = Plan.of(config).root.match(LABELS)
    assert route.group_labels(LABELS) == {}
    assert (route.group_wait_ms, route.group_interval_ms) == (30_000, 300_000)


def test_tier_2_inhibits_tier_1_beside_the_rules_that_are_written() -> None:
    rule = InhibitRuleConfig(
        source_matchers=parse_matchers("a=b"), target_matchers=parse_matchers("c=d"), equal=("e",)
    )
    own, tier = Plan.of(Config(inhibit_rules=(rule,))).inhibit_rules
    assert (own.sources[0].equal, own.target) == (("e",), rule.target_matchers)
    assert tier == TIER_RULE
    assert Plan.of(Config(tier_inhibition=False)).inhibit_rules == ()


def test_compat_drops_a_resolution_that_is_muted_as_alertmanager_does() -> None:
    assert Plan.of(Config()).keeps_owed
    assert not Plan.of(Config(compat="alertmanager")).keeps_owed


def test_flapping_is_told_once_unless_it_is_switched_off_or_alertmanager_is_asked_for() -> None:
    own = FlappingConfig(changes=9, window=Interval(60_000), calm=Interval(30_000))
    assert Plan.of(Config()).flapping == FlapRule()
    assert Plan.of(Config(flapping=own)).flapping == FlapRule(9, 60_000, 30_000)
    assert Plan.of(Config(flapping=FlappingConfig(enabled=False))).flapping is None
    assert Plan.of(Config(compat="alertmanager")).flapping is None
