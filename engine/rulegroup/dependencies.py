"""Which rules read what which others write, and so in which order and how a replay runs them.

A rule that reads only data and the output of earlier rules is evaluated over a whole axis at once.
Rules that read their own or a later rule's output form a component that goes step by step.
"""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from engine.alerts.machine import ALERT_NAME, ALERTS, ALERTS_FOR_STATE
from engine.evidence import WAIT_RATIO
from engine.labels import METRIC_NAME
from engine.promql.functions.info import DEFAULT_METRIC
from rules.model import AlertingRule
from rules.promql.walk import calls, selectors
from rules.slotted import dataclass
from rules.templates import words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rules.model import Rule
    from rules.promql.ast import Expr, VectorSelector


@dataclass(frozen=True, slots=True)
class Component:
    """Rules, by position, that are evaluated together; `stepwise`: one time after another."""

    members: tuple[int, ...]
    stepwise: bool


@dataclass(frozen=True, slots=True)
class Reads:
    """What a rule reads: metric names, alert names of `ALERTS` series, or anything at all."""

    names: frozenset[str] = frozenset()
    alerts: frozenset[str] = frozenset()
    anything: bool = False

    def touches(self, rule: Rule) -> bool:
        """Whether it may read what `rule` writes."""
        if self.anything:
            return True
        if isinstance(rule, AlertingRule):
            return bool({ALERTS, ALERTS_FOR_STATE} & self.names) or rule.name in self.alerts
        return rule.name in self.names


def reads_of(rule: Rule) -> Reads:
    """What the rule's expressions (and its templates' queries) can read."""
    if isinstance(rule, AlertingRule):
        texts = [*rule.labels.values(), *rule.annotations.values()]
        if any("query" in words_of(text) for text in texts):
            return Reads(anything=True)
    return _read_by(rule)


def _read_by(rule: Rule) -> Reads:
    """What its expressions can read."""
    reads = [reads_in(expression.tree) for expression in rule.expressions]
    return reads[0] if len(reads) == 1 else _together(reads)


def _together(reads: Sequence[Reads]) -> Reads:
    return Reads(
        frozenset().union(*(wanted.names for wanted in reads)),
        frozenset().union(*(wanted.alerts for wanted in reads)),
        any(wanted.anything for wanted in reads),
    )


def reads_in(expr: Expr) -> Reads:
    """What an expression can read."""
    names, alerts = set(), set()
    for selector in selectors(expr):
        name = _fixed(selector, METRIC_NAME)
        if name is None:
            return Reads(anything=True)
        alert = _fixed(selector, ALERT_NAME)
        if name in {ALERTS, ALERTS_FOR_STATE} and alert is not None:
            alerts.add(alert)
        else:
            names.add(name)
    if any(call.func == "info" and len(call.args) == 1 for call in calls(expr)):
        # A second argument is a selector like any other.
        names.add(DEFAULT_METRIC)
    return Reads(frozenset(names), frozenset(alerts))


def metrics_in(expr: Expr) -> frozenset[str] | None:
    """The only metrics that an expression asks data for; None: it can be any."""
    reads = reads_in(expr)
    # info() finds metrics that no selector names.
    if reads.anything or any(call.func == "info" for call in calls(expr)):
        return None
    return reads.names | ({ALERTS, ALERTS_FOR_STATE} if reads.alerts else set())


def metrics_asked(rules: Iterable[Rule]) -> frozenset[str] | None:
    """The only metrics that a replay asks data for, evidence included; None: it can be any."""
    found = {WAIT_RATIO}
    for rule in rules:
        if reads_of(rule).anything:
            return None
        for expression in rule.expressions:
            own = metrics_in(expression.tree)
            if own is None:
                return None
            found |= own
    return frozenset(found)


def components(rules: Sequence[tuple[Rule, int]]) -> tuple[Component, ...]:
    """Rules as (rule, query offset in milliseconds), in order, cut into an order of evaluation.

    A rule whose query looks back less far than a writer's would see, on an axis, what that
    writer records only later: such a pair goes step by step too.
    """
    reads = [reads_of(rule) for rule, _ in rules]
    follows: list[set[int]] = [set() for _ in rules]
    cyclic = set()
    by_name: dict[str, list[int]] = {}
    alerting = [i for i, (rule, _) in enumerate(rules) if isinstance(rule, AlertingRule)]
    for index, (rule, _) in enumerate(rules):
        by_name.setdefault(rule.name, []).append(index)
    for reader, wanted in enumerate(reads):
        for writer in _writers(wanted, by_name, alerting, len(rules)):
            if not wanted.touches(rules[writer][0]):
                continue
            follows[reader].add(writer)
            if writer == reader:
                cyclic.add(reader)
            elif writer > reader or rules[writer][1] > rules[reader][1]:
                follows[writer].add(reader)
    return _condense(follows, cyclic)


def _writers(
    wanted: Reads, by_name: dict[str, list[int]], alerting: list[int], count: int
) -> Iterable[int]:
    """Candidates for what `wanted` touches, without looking at every pair of rules."""
    if wanted.anything:
        return range(count)
    found = {index for name in wanted.names | wanted.alerts for index in by_name.get(name, ())}
    if {ALERTS, ALERTS_FOR_STATE} & wanted.names:
        found.update(alerting)
    return sorted(found)


def _fixed(selector: VectorSelector, label: str) -> str | None:
    """The one value that a label can have in a selector; None if there is no such."""
    for matcher in selector.matchers:
        if matcher.label == label and matcher.op == "=" and matcher.value:
            return matcher.value
    return None


def _condense(follows: list[set[int]], cyclic: set[int]) -> tuple[Component, ...]:
    """Strongly connected components in an order in which each follows what it reads."""
    component_of, groups = _strongly_connected(follows)
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for number in sorted(range(len(groups)), key=lambda number: min(groups[number])):
        before = {component_of[other] for own in groups[number] for other in follows[own]}
        sorter.add(number, *sorted(before - {number}))
    return tuple(
        Component(
            tuple(sorted(groups[number])),
            stepwise=len(groups[number]) > 1 or groups[number][0] in cyclic,
        )
        for number in sorter.static_order()
    )


def _strongly_connected(follows: list[set[int]]) -> tuple[list[int], list[list[int]]]:
    """Kosaraju's algorithm: each node's component number, and each component's nodes."""
    followed: list[set[int]] = [set() for _ in follows]
    for node, others in enumerate(follows):
        for other in others:
            followed[other].add(node)
    finished = [node for tree in _trees(follows, range(len(follows))) for node in tree]
    groups = list(_trees(followed, reversed(finished)))
    component_of = [-1] * len(follows)
    for number, group in enumerate(groups):
        for node in group:
            component_of[node] = number
    return component_of, groups


def _trees(edges: list[set[int]], roots: Iterable[int]) -> Iterator[list[int]]:
    """Depth first from each root: the nodes not met before, in the order they are finished."""
    seen: set[int] = set()
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        finished: list[int] = []
        stack = [(root, iter(sorted(edges[root])))]
        while stack:
            node, rest = stack[-1]
            unseen = next((other for other in rest if other not in seen), None)
            if unseen is None:
                finished.append(node)
                stack.pop()
            else:
                seen.add(unseen)
                stack.append((unseen, iter(sorted(edges[unseen]))))
        yield finished


def read_by_others(rules: Sequence[Rule]) -> list[bool]:
    """For each rule whether any rule, itself included, may read what it writes."""
    everything = _together([reads_of(rule) for rule in rules])
    return [everything.touches(rule) for rule in rules]


def read_no_others(rules: Sequence[Rule]) -> list[bool]:
    """For each rule whether it reads nothing that any of them, itself included, may write."""
    names = {rule.name for rule in rules if not isinstance(rule, AlertingRule)}
    names |= {ALERTS, ALERTS_FOR_STATE}
    reads = map(_read_by, rules)
    return [not (wanted.anything or wanted.alerts or wanted.names & names) for wanted in reads]
