"""The routing tree: from an alert's labels to the routes that it takes.

Inheritance, defaults, matching and keys are those of dispatch/route.go in Alertmanager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.matchers import all_match, ordered, spelled
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.alerts.matchers import Matcher
    from engine.config.model import RouteConfig
    from engine.config.quantities import Interval
    from engine.labels import Labels

ALL_LABELS = ("...",)


@dataclass(frozen=True, slots=True)
class Route:
    """A node of the tree with everything that it has from the nodes above.

    `group_by` None: by all labels. `key` is made of the matchers on the way from the root, `id`
    adds the place among its siblings.
    """

    receiver: str
    group_by: frozenset[str] | None = frozenset()
    group_wait_ms: int = 30_000
    group_interval_ms: int = 300_000
    repeat_interval_ms: int = 14_400_000
    matchers: tuple[Matcher, ...] = ()
    continue_: bool = False
    mute_time_intervals: tuple[str, ...] = ()
    active_time_intervals: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    key: str = "{}"
    id: str = "{}"

    def match(self, labels: dict[str, str] | Labels) -> list[Route]:
        """The routes of an alert, in the tree's order; none where this one does not match.

        A route is taken itself when none below matches, and ends the search among its siblings
        unless it says `continue`.
        """
        if not all_match(self.matchers, labels):
            return []
        taken: list[Route] = []
        for route in self.routes:
            below = route.match(labels)
            taken.extend(below)
            if below and not route.continue_:
                break
        return taken or [self]

    def group_labels(self, labels: dict[str, str] | Labels) -> dict[str, str]:
        """The labels that an alert's group goes by here: those in `group_by` that it has."""
        pairs = labels.items() if isinstance(labels, dict) else labels
        return {
            name: value for name, value in pairs if self.group_by is None or name in self.group_by
        }

    def walk(self) -> Iterator[Route]:
        """This route and all below, depth first."""
        yield self
        for route in self.routes:
            yield from route.walk()


def build_tree(config: RouteConfig) -> Route:
    """The tree of a configuration's root route."""
    return _node(config, Route(receiver=""), spelled(ordered(config.matchers)), None)


def _node(config: RouteConfig, above: Route, key: str, place: int | None) -> Route:
    """One node: what `config` leaves open is as in the route above."""
    node = Route(
        receiver=config.receiver or above.receiver,
        group_by=_group_by(config, above),
        group_wait_ms=_ms(config.group_wait, above.group_wait_ms),
        group_interval_ms=_ms(config.group_interval, above.group_interval_ms),
        repeat_interval_ms=_ms(config.repeat_interval, above.repeat_interval_ms),
        matchers=ordered(config.matchers),
        continue_=config.continue_,
        # These two are never inherited.
        mute_time_intervals=config.mute_time_intervals,
        active_time_intervals=config.active_time_intervals,
        key=key,
        id=key if place is None else f"{key}/{place}",
    )
    routes = tuple(
        _node(below, node, f"{key}/{spelled(ordered(below.matchers))}", index)
        for index, below in enumerate(config.routes)
    )
    return replace(node, routes=routes)


def _group_by(config: RouteConfig, above: Route) -> frozenset[str] | None:
    if not config.group_by:
        return above.group_by
    return None if config.group_by == ALL_LABELS else frozenset(config.group_by)


def _ms(interval: Interval | None, inherited_ms: int) -> int:
    return inherited_ms if interval is None else interval.ms
