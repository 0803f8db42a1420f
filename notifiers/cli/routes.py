"""`stallwatch notify route`: which receivers an alert goes to, by which routes, and how grouped."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from engine.alerts.matchers import MatcherError, parse_matchers, spelled
from engine.alerts.wording import inert
from engine.labels import Labels
from notifiers.origin import Origin
from notifiers.routing.plan import Plan
from rules.durations import format_duration
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from engine.config.model import Config
    from notifiers.routing.tree import Route

_ALERT = "an alert's labels are written NAME=VALUE, such as alertname=LinkDown tier=1"


def show_routes(
    config: Config,
    texts: Sequence[str],
    *,
    tree: bool,
    as_json: bool,
    expected: str | None = None,
) -> int:
    """Print the routes that an alert takes to which its rule gives these labels.

    External labels are added and relabelling is done first. `tree`: beside all other routes.
    `expected`: receivers, with commas between; 1 if these are not who is told, in this order.

    Raises StallwatchError for labels that are none, and for a configuration without receivers.
    """
    if not config.receivers:
        raise StallwatchError(
            "stallwatch: the configuration has no receivers, so there is nothing to route to\n"
            "    hint: name one under 'receivers:' in stallwatch.yaml (see --config)"
        )
    root = Plan.of(config).root
    own = parse_labels(texts)
    labels = Origin.of(config).relabelled(own)
    if labels is None:
        said = f"nobody: 'alert_relabel_configs' drops {inert(str(own))}"
        print("[]" if as_json else said)
        return _verified(expected, [])
    if not texts and not tree:
        raise StallwatchError(f"stallwatch: no labels to route\n    hint: {_ALERT}; or use --tree")
    taken = root.match(labels) if texts else []
    if as_json:
        shown: object = [{**_record(route), "group": route.group_labels(labels)} for route in taken]
        if tree:
            shown = _branch(root, taken)
        print(json.dumps(shown, indent=2, ensure_ascii=False))
    elif tree:
        print("\n".join(_drawn(root, taken)))
    else:
        print("\n".join(_line(route, labels) for route in taken))
    return _verified(expected, [route.receiver for route in taken])


def _verified(expected: str | None, receivers: Sequence[str]) -> int:
    """1, and a word of it, if the receivers are not those that are expected."""
    wanted = None if expected is None else [name for name in expected.split(",") if name]
    if wanted is None or wanted == list(receivers):
        return 0
    told = ", ".join(map(inert, receivers)) or "nobody"
    said = ", ".join(map(inert, wanted)) or "nobody"
    print(f"stallwatch: expected {said}, routed to {told}", file=sys.stderr)
    return 1


def parse_labels(texts: Sequence[str]) -> Labels:
    """The labels of `alertname=X` and the like; `{a="b", c="d"}` is taken too.

    Raises StallwatchError.
    """
    labels: dict[str, str] = {}
    for text in texts:
        try:
            matchers = parse_matchers(text)
        except MatcherError as error:
            raise StallwatchError(f"stallwatch: {error}\n    hint: {_ALERT}") from error
        for matcher in matchers:
            if matcher.op != "=":
                message = f"stallwatch: '{text}' says what a label matches, not what it is"
                raise StallwatchError(f"{message}\n    hint: {_ALERT}")
            labels[matcher.label] = matcher.value
    return Labels(labels)


def _line(route: Route, labels: Labels) -> str:
    group = inert(Labels(route.group_labels(labels)).spelled(",") or "{}")
    return f"{inert(route.receiver)}  by {inert(route.id)}\n    group {group}\n    {_timers(route)}"


def _timers(route: Route) -> str:
    parts = [
        f"group_wait {format_duration(route.group_wait_ms)}",
        f"group_interval {format_duration(route.group_interval_ms)}",
        f"repeat_interval {format_duration(route.repeat_interval_ms)}",
    ]
    if route.mute_time_intervals:
        parts.append(f"mute_time_intervals {_names(route.mute_time_intervals)}")
    if route.active_time_intervals:
        parts.append(f"active_time_intervals {_names(route.active_time_intervals)}")
    return ", ".join(parts)


def _names(intervals: Sequence[str]) -> str:
    return " ".join(inert(one) for one in intervals)


def _drawn(route: Route, taken: Collection[Route], depth: int = 0) -> Iterator[str]:
    """A line per route, below its parent; `>` marks those that are taken."""
    mark = ">" if _is_one_of(route, taken) else " "
    by = "all labels" if route.group_by is None else ", ".join(sorted(route.group_by)) or "nothing"
    goes_on = ", continue" if route.continue_ else ""
    what = f"{inert(spelled(route.matchers))}  {inert(route.receiver)}"
    yield f"{mark} {'  ' * depth}{what}  (by {inert(by)}, {_timers(route)}{goes_on})"
    for below in route.routes:
        yield from _drawn(below, taken, depth + 1)


def _is_one_of(route: Route, taken: Collection[Route]) -> bool:
    # Not by `id`: two subtrees with the same matchers have the same ones.
    return any(one is route for one in taken)


def _branch(route: Route, taken: Collection[Route]) -> dict[str, object]:
    return {
        **_record(route),
        "taken": _is_one_of(route, taken),
        "routes": [_branch(below, taken) for below in route.routes],
    }


def _record(route: Route) -> dict[str, object]:
    return {
        "receiver": route.receiver,
        "route": route.id,
        "matchers": [str(matcher) for matcher in route.matchers],
        "continue": route.continue_,
        "group_by": None if route.group_by is None else sorted(route.group_by),
        "group_wait": route.group_wait_ms / 1000,
        "group_interval": route.group_interval_ms / 1000,
        "repeat_interval": route.repeat_interval_ms / 1000,
        "mute_time_intervals": list(route.mute_time_intervals),
        "active_time_intervals": list(route.active_time_intervals),
    }
