"""Routes, timelines of alerts and dispatchers in few words, for the tests of the dispatcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.alerts.alert import Alert, AlertState
from engine.alerts.matchers import parse_matchers
from engine.labels import Labels
from notifiers.dispatch.dispatcher import Dispatcher
from notifiers.dispatch.log import NotificationLog
from notifiers.dispatch.message import Addressee
from notifiers.dispatch.muting import Muting
from notifiers.inhibition import Inhibitor, InhibitRule, Source
from notifiers.routing.intervals import Intervals
from notifiers.routing.tree import Route
from notifiers.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

START = 1_700_000_000_000


def route(receiver: str = "ops", **changes: Any) -> Route:
    """`group_by` None: each alert alone; times in seconds."""
    settings: dict[str, Any] = {
        "group_by": frozenset({"alertname"}),
        "wait": 30,
        "interval": 300,
        "repeat": 3600,
        "matchers": "",
        "continue_": False,
        "mute": (),
        "active": (),
        "routes": (),
        "key": "{}",
    } | changes
    return Route(
        receiver=receiver,
        group_by=settings["group_by"],
        group_wait_ms=settings["wait"] * 1000,
        group_interval_ms=settings["interval"] * 1000,
        repeat_interval_ms=settings["repeat"] * 1000,
        matchers=parse_matchers(settings["matchers"]) if settings["matchers"] else (),
        continue_=settings["continue_"],
        mute_time_intervals=settings["mute"],
        active_time_intervals=settings["active"],
        routes=settings["routes"],
        key=settings["key"],
        id=settings["key"],
    )


def labels_of(text: str) -> Labels:
    """`A/n1` is alert A of node n1; `A/n1 tier=2` has a label more."""
    name, *more = text.split()
    alert, _, node = name.partition("/")
    return Labels({"alertname": alert, "node": node, **dict(each.split("=") for each in more)})


def alert(text: str, seconds: float, *, over: bool = False, fired: float | None = None) -> Alert:
    at_ms = START + round(seconds * 1000)
    fired_ms = at_ms if fired is None else START + round(fired * 1000)
    return Alert(
        labels=labels_of(text),
        annotations={},
        state=AlertState.RESOLVED if over else AlertState.FIRING,
        value=1.0,
        active_at_ms=fired_ms,
        fired_at_ms=fired_ms,
        resolved_at_ms=at_ms if over else None,
    )


def events(*lines: str) -> list[tuple[int, list[Alert]]]:
    """`30 +A/n1` fires 30 s after the start, `90 -A/n1` resolves."""
    found = []
    fired: dict[str, float] = {}
    for line in lines:
        when, _, what = line.partition(" ")
        name, over = what[1:], what.startswith("-")
        if not over:
            fired[name] = float(when)
        one = alert(name, float(when), over=over, fired=fired[name])
        found.append((START + round(float(when) * 1000), [one]))
    return found


class Silences:
    """One that matches an alert's name between two times, in seconds."""

    def __init__(self, name: str, begin: float, end: float) -> None:
        self.name, self.begin, self.end = name, begin, end

    def current(self) -> Silences:
        return self

    def silencing(self, labels: Labels, now_ms: int) -> tuple[str, ...]:
        within = self.begin <= (now_ms - START) / 1000 < self.end
        return ("s1",) if within and labels.get("alertname") == self.name else ()


class Nights:
    """The interval `nights` holds between two times, in seconds."""

    def __init__(self, begin: float, end: float) -> None:
        self.begin, self.end = begin, end

    def contains(self, names: Iterable[str], time_ms: int) -> tuple[str, ...]:
        within = self.begin <= (time_ms - START) / 1000 < self.end
        return tuple(name for name in names if within)


def dispatcher(
    root: Route,
    *,
    rules: Sequence[InhibitRule] = (),
    silences: Silences | None = None,
    times: Any = None,
    log: NotificationLog | None = None,
    addressees: dict[str, list[Addressee]] | None = None,
    **settings: Any,
) -> Dispatcher:
    silences = silences or Silences("", 0, 0)
    to = addressees or {name: [Addressee(name)] for name in ("ops", "web", "db")}
    muting = Muting(Inhibitor(rules), times or Intervals(()), silences)
    return Dispatcher(root, to, muting, log or NotificationLog(), **settings)


def told(root: Route, *lines: str, until: float = 3000, **settings: Any) -> list[str]:
    """A line a message: `30 ops: +A/n1 -A/n2 (some alerts resolved)`."""
    end_ms = START + round(until * 1000)
    found = []
    for sent in simulate(dispatcher(root, **settings), events(*lines), end_ms):
        parts = [
            f"{'+' if each.resolved_at_ms is None else '-'}"
            f"{each.labels.get('alertname')}/{each.labels.get('node')}"
            for each in sent.message.alerts
        ]
        seconds = (sent.time_ms - START) / 1000
        reason = sent.message.reason
        found.append(f"{seconds:g} {sent.message.integration}: {' '.join(parts)} ({reason})")
    return found


def inhibits(source: str, target: str, *equal: str) -> InhibitRule:
    return InhibitRule((Source(parse_matchers(source), equal),), parse_matchers(target))
