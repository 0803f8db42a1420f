from __future__ import annotations

from rules.promql.ast import Binary, Call, VectorSelector
from rules.promql.parser import parse
from rules.promql.walk import aggregates, calls, selectors, unwrapped, walk
from rules.source import Span

EXPRESSION = parse("sum by (a) (rate(x[5m])) / on (a) max_over_time(y[1h:]) > hour()")


def test_a_walk_gives_a_parent_before_its_children_in_source_order() -> None:
    nodes = list(walk(EXPRESSION))
    assert isinstance(nodes[0], Binary)
    leaves = [node.name for node in nodes if isinstance(node, VectorSelector)]
    assert leaves == ["x", "y"]


def test_parentheses_are_taken_off_however_many_there_are() -> None:
    assert unwrapped(parse("((hour()))")) == Call(Span(2, 8), "hour", Span(2, 6), ())


def test_each_kind_of_node_can_be_asked_for() -> None:
    assert [s.name for s in selectors(EXPRESSION)] == ["x", "y"]
    assert [c.func for c in calls(EXPRESSION)] == ["rate", "max_over_time", "hour"]
    assert [a.op for a in aggregates(EXPRESSION)] == ["sum"]
