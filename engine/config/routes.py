"""The sections `route` and `inhibit_rules`, in Alertmanager's spelling.

What is refused is what config/config.go and config/common/inhibitrule.go in Alertmanager refuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.matchers import all_match
from engine.config.matching import label_names, read_matchers
from engine.config.model import InhibitRuleConfig, InhibitSourceConfig, RouteConfig
from engine.config.quantities import Interval
from rules.document import Mapping, Scalar
from rules.fields import Fields, did_you_mean
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from rules.fields import Report

ALL_LABELS = "..."
_INTERVALS = ("mute_time_intervals", "active_time_intervals")
_ROUTE = ("receiver", "group_by", "group_wait", "group_interval", "repeat_interval", "matchers",
          "match", "match_re", "continue", *_INTERVALS, "routes")  # fmt: skip
_RULE = ("name", "source_matchers", "target_matchers", "equal", "sources", "source_match",
         "source_match_re", "target_match", "target_match_re")  # fmt: skip
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})


@dataclass(frozen=True, slots=True)
class RouteReader:
    """Reads the tree. `receivers`, `intervals`: the names that it may use.

    `required`: a lone receiver needs a route too, as in an alertmanager.yml.
    """

    report: Report
    receivers: Collection[str]
    intervals: Collection[str]
    required: bool = False

    def read(self, root: Mapping) -> RouteConfig | None:
        """The root route; None where a lone receiver needs none. Problems are reported."""
        entry = root.get("route")
        if entry is None or (isinstance(entry.value, Scalar) and entry.value.null):
            return self._without_a_route(root)
        fields = Fields.of(self.report, entry.value, "the route", _ROUTE)
        if fields is None:
            return None
        route = self._route(fields)
        self._check_root(fields, route)
        return route

    def _without_a_route(self, root: Mapping) -> RouteConfig | None:
        names = list(self.receivers)
        if self.required:
            span = root.entries[0].key.span if root.entries else root.span
            hint = f"such as 'route: {{receiver: {names[0] if names else 'oncall'}}}'"
            self.report.add(span, "an alertmanager.yml needs a 'route'", hint, "route")
            return None
        if len(names) > 1:
            entry = root.get("receivers")
            span = root.span if entry is None else entry.key.span
            message = "several receivers and no 'route' that names one"
            self.report.add(span, message, f"add 'route: {{receiver: {names[0]}}}'", "route")
        return None

    def _check_root(self, fields: Fields, route: RouteConfig) -> None:
        """The root is for what no other route matches, so nothing may keep an alert from it."""
        if route.receiver is None and fields.entry("receiver") is None:
            if len(self.receivers) == 1:
                message = f"add 'receiver: {next(iter(self.receivers))}'"
            else:
                message = "it is for what no other route takes"
            self.report.add(fields.head, "the route needs 'receiver'", message, "route")
        barred = {
            **dict.fromkeys(("matchers", "match", "match_re"), bool(route.matchers)),
            **{name: bool(getattr(route, name)) for name in _INTERVALS},
            "continue": route.continue_,
        }
        for name, given in barred.items():
            if given and fields.entry(name) is not None:
                message = f"the root route has no '{name}': it takes every alert"
                hint = "move it into a route below 'routes'"
                self.report.add(fields.key(name), message, hint, "route")

    def _route(self, fields: Fields) -> RouteConfig:
        found = (Fields.of(self.report, node, "a route", _ROUTE) for node in fields.items("routes"))
        below = [(one, self._route(one)) for one in found if one is not None]
        self._warn_of_shared_keys(below)
        return RouteConfig(
            receiver=self._receiver(fields),
            group_by=self._group_by(fields),
            matchers=read_matchers(fields, ("matchers", "match", "match_re")),
            continue_=boolean(fields, "continue"),
            routes=tuple(route for _, route in below),
            group_wait=self._timer(fields, "group_wait"),
            group_interval=self._timer(fields, "group_interval"),
            repeat_interval=self._timer(fields, "repeat_interval"),
            mute_time_intervals=self._names(fields, "mute_time_intervals"),
            active_time_intervals=self._names(fields, "active_time_intervals"),
        )

    def _warn_of_shared_keys(self, below: Sequence[tuple[Fields, RouteConfig]]) -> None:
        """A group is known to its receiver by matchers and labels: of two alike one is retold."""
        seen: set[tuple[object, ...]] = set()
        for fields, route in below:
            key = route.matchers, route.receiver, route.group_by
            if key in seen:
                message = "a route before this one has the same matchers, receiver and 'group_by'"
                hint = "their groups have one key: what one tells, the other may tell again"
                self.report.add(fields.head, message, hint, "route", severity="warning")
            if route.continue_:
                seen.add(key)

    def _receiver(self, fields: Fields) -> str | None:
        scalar = fields.text("receiver")
        if scalar is None or not scalar.value:
            return None
        if scalar.value not in self.receivers:
            hint = "there are no 'receivers'"
            if self.receivers:
                hint = did_you_mean(scalar.value, self.receivers)
            message = f"there is no receiver '{scalar.value}'"
            self.report.add(scalar.span, message, hint, "route")
        return scalar.value

    def _group_by(self, fields: Fields) -> tuple[str, ...] | None:
        labels = label_names(fields, "group_by")
        if not labels:
            return None
        seen: set[str] = set()
        for label, node in labels:
            if label in seen and label != ALL_LABELS:
                message = f"'{label}' stands twice in 'group_by'"
                self.report.add(node.span, message, "keep one of them", "route")
            seen.add(label)
        if ALL_LABELS in seen and len(seen) > 1:
            span = next(node.span for label, node in labels if label == ALL_LABELS)
            message = "'...' groups by all labels and stands alone"
            self.report.add(span, message, "leave out '...' or the other labels", "route")
        return tuple(dict.fromkeys(label for label, _ in labels))

    def _timer(self, fields: Fields, name: str) -> Interval | None:
        length_ms = fields.duration_ms(name)
        entry = fields.entry(name)
        if length_ms is None or entry is None:
            return None
        if length_ms == 0 and name != "group_wait":
            message = f"'{name}' must be longer than 0"
            self.report.add(entry.value.span, message, "such as '5m'", "route")
            return None
        return Interval(length_ms)

    def _names(self, fields: Fields, name: str) -> tuple[str, ...]:
        found = []
        for node in fields.items(name):
            if not isinstance(node, Scalar):
                self.report.add(node.span, f"each of '{name}' is a name", code="route")
                continue
            if node.value not in self.intervals:
                hint = "there are no 'time_intervals'"
                if self.intervals:
                    hint = did_you_mean(node.value, self.intervals)
                message = f"there is no time interval '{node.value}'"
                self.report.add(node.span, message, hint, "route")
            found.append(node.value)
        return tuple(found)


def read_inhibit_rules(report: Report, root: Mapping) -> tuple[InhibitRuleConfig, ...]:
    """The section `inhibit_rules`; problems are reported."""
    nodes = Fields(report, root).items("inhibit_rules")
    found = (Fields.of(report, node, "an inhibit rule", _RULE) for node in nodes)
    return tuple(_inhibit_rule(fields) for fields in found if fields is not None)


def _inhibit_rule(fields: Fields) -> InhibitRuleConfig:
    sources = tuple(_sources(fields))
    alone = ("source_matchers", "source_match", "source_match_re", "equal")
    beside = [name for name in alone if fields.entry(name) is not None]
    if sources and beside:
        message = f"'sources' and '{beside[0]}' are both given"
        hint = "each of 'sources' has 'matchers' and 'equal' of its own"
        fields.report.add(fields.key(beside[0]), message, hint, "inhibit")
    name = fields.text("name")
    return InhibitRuleConfig(
        name="" if name is None else name.value,
        source_matchers=read_matchers(
            fields, ("source_matchers", "source_match", "source_match_re")
        ),
        target_matchers=read_matchers(
            fields, ("target_matchers", "target_match", "target_match_re")
        ),
        equal=tuple(label for label, _ in label_names(fields, "equal")),
        sources=sources,
    )


def _sources(fields: Fields) -> Iterator[InhibitSourceConfig]:
    for node in fields.items("sources"):
        one = Fields.of(fields.report, node, "a source", ("matchers", "equal"))
        if one is None:
            continue
        before = len(fields.report.problems)
        matchers = read_matchers(one, ("matchers", "", ""))
        if all_match(matchers, {}) and len(fields.report.problems) == before:
            message = "a source needs a matcher that an alert without the label does not satisfy"
            fields.report.add(one.head, message, "such as 'alertname=\"LinkDown\"'", "inhibit")
        equal = tuple(label for label, _ in label_names(one, "equal"))
        yield InhibitSourceConfig(matchers=matchers, equal=equal)


def boolean(fields: Fields, name: str) -> bool:
    """A field that is true or false, as YAML 1.1 spells them; false when it is absent."""
    scalar = fields.text(name)
    if scalar is None:
        return False
    if scalar.style or scalar.value.lower() not in _TRUE | _FALSE:
        fields.report.add(scalar.span, f"'{name}': expected true or false", code="type")
    return scalar.value.lower() in _TRUE
