"""The routing tree."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

from engine.alerts.matchers import all_match, parse_matchers
from engine.config.kinds import Kinds
from engine.config.loader import load_config
from engine.config.model import Config, RouteConfig
from engine.labels import Labels
from notifiers.routing.tree import Route, build_tree

if TYPE_CHECKING:
    from pathlib import Path

TREE = """\
receivers: [{name: oncall}, {name: network}, {name: gpu}, {name: archive}]
time_intervals: [{name: nights}]
route:
  receiver: oncall
  group_by: [alertname, task_id]
  routes:
    - receiver: archive
      group_by: ['...']
      group_wait: 0s
      continue: true
    - matchers: ['tier="1"', team=~"net|fabric"]
      receiver: network
      group_interval: 1m
      mute_time_intervals: [nights]
      routes:
        - match: {severity: critical}
          repeat_interval: 30m
        - matchers: severity=warning
          group_by: [node]
          active_time_intervals: [nights]
    - match_re: {team: gpu.*}
      receiver: gpu
"""


def _load(folder: Path, text: str) -> Config:
    (folder / "stallwatch.yaml").write_text(text)
    return load_config(folder / "stallwatch.yaml", Kinds())


def _tree(folder: Path) -> Route:
    config = _load(folder, TREE)
    assert config.route is not None
    return build_tree(config.route)


def _receivers(tree: Route, **labels: str) -> list[str]:
    return [route.receiver for route in tree.match(labels)]


def test_an_alert_takes_the_deepest_routes_that_match(tmp_path: Path) -> None:
    tree = _tree(tmp_path)
    assert _receivers(tree, team="gpu-7") == ["archive", "gpu"]
    assert _receivers(tree, team="net", tier="1") == ["archive", "network"]
    # `continue` of the archive: the search goes on, and only the root is left out.
    assert _receivers(tree, team="other") == ["archive"]
    assert tree.match(Labels.of(team="net", tier="1", severity="critical"))[1].id == (
        '{}/{team=~"net|fabric",tier="1"}/{severity="critical"}/0'
    )


def test_what_a_route_leaves_open_is_as_above_but_for_its_time_intervals(tmp_path: Path) -> None:
    network = _tree(tmp_path).routes[1]
    critical, warning = network.routes
    assert critical.receiver == "network"
    assert critical.group_by == frozenset({"alertname", "task_id"})
    assert (critical.group_wait_ms, critical.group_interval_ms) == (30_000, 60_000)
    assert critical.repeat_interval_ms == 1_800_000
    assert warning.repeat_interval_ms == 14_400_000
    assert network.mute_time_intervals == ("nights",)
    assert critical.mute_time_intervals == ()
    assert warning.active_time_intervals == ("nights",)


def test_a_group_goes_by_the_labels_that_an_alert_has(tmp_path: Path) -> None:
    tree = _tree(tmp_path)
    labels = {"alertname": "Slow", "node": "n1", "rank": "0"}
    assert tree.group_labels(labels) == {"alertname": "Slow"}
    assert tree.routes[0].group_labels(Labels(labels)) == labels
    assert tree.routes[1].routes[1].group_labels(labels) == {"node": "n1"}


def test_keys_are_alertmanagers(tmp_path: Path) -> None:
    tree = _tree(tmp_path)
    assert [(route.key, route.id) for route in tree.walk()] == [
        ("{}", "{}"),
        ("{}/{}", "{}/{}/0"),
        ('{}/{team=~"net|fabric",tier="1"}', '{}/{team=~"net|fabric",tier="1"}/1'),
        (
            '{}/{team=~"net|fabric",tier="1"}/{severity="critical"}',
            '{}/{team=~"net|fabric",tier="1"}/{severity="critical"}/0',
        ),
        (
            '{}/{team=~"net|fabric",tier="1"}/{severity="warning"}',
            '{}/{team=~"net|fabric",tier="1"}/{severity="warning"}/1',
        ),
        ('{}/{team=~"^(?:gpu.*)$"}', '{}/{team=~"^(?:gpu.*)$"}/2'),
    ]


def test_a_lone_receiver_is_a_tree_of_one(tmp_path: Path) -> None:
    # Without a route each alert is told by itself, at once: tests/notifiers/routing/test_plan.py.
    assert _load(tmp_path, "receivers: [{name: oncall}]\n").route is None
    assert build_tree(RouteConfig(receiver="oncall")).match({}) == [Route(receiver="oncall")]


def test_a_child_of_a_route_by_all_labels_may_name_some() -> None:
    below = RouteConfig(group_by=("node",), routes=(RouteConfig(),))
    root = build_tree(RouteConfig(receiver="a", group_by=("...",), routes=(below, RouteConfig())))
    assert [route.group_by for route in root.walk()] == [None, {"node"}, {"node"}, None]


def test_any_tree_matches_as_each_route_by_itself_says() -> None:
    chance = random.Random(7)
    for _ in range(300):
        numbers = itertools.count()
        tree = build_tree(RouteConfig(receiver="0", routes=_random_routes(chance, numbers, 3)))
        for _ in range(20):
            labels = {name: chance.choice("xyz") for name in "abc" if chance.random() < 0.8}
            expected = [path[-1].receiver for path in _paths(tree) if _is_taken(path, labels)]
            assert [route.receiver for route in tree.match(labels)] == expected


def _paths(route: Route, *above: Route) -> list[tuple[Route, ...]]:
    path = (*above, route)
    return [path, *(one for below in route.routes for one in _paths(below, *path))]


def _is_taken(path: tuple[Route, ...], labels: dict[str, str]) -> bool:
    """It and all above match, nothing below does, and no sibling before one of them ends it."""
    return (
        all(all_match(route.matchers, labels) for route in path)
        and not any(all_match(below.matchers, labels) for below in path[-1].routes)
        and not any(
            all_match(sibling.matchers, labels) and not sibling.continue_
            for above, route in itertools.pairwise(path)
            for sibling in above.routes[: above.routes.index(route)]
        )
    )


def _random_routes(
    chance: random.Random, numbers: itertools.count[int], depth: int
) -> tuple[RouteConfig, ...]:
    return tuple(
        RouteConfig(
            receiver=str(next(numbers) + 1),
            matchers=parse_matchers(
                f"{chance.choice('abc')}{chance.choice(('=', '!='))}{chance.choice('xyz')}"
            ),
            continue_=chance.random() < 0.3,
            routes=_random_routes(chance, numbers, depth - 1),
        )
        for _ in range(chance.randint(0, 3) if depth else 0)
    )
