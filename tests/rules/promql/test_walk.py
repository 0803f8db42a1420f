from __future__ import annotations

from rules.promql.ast import Binary, VectorSelector
from rules.promql.parser import parse
from rules.promql.walk import aggregates, calls, matrix_selectors, selectors, walk

EXPRESSION = parse("sum by (a) (rate(x[5m])) / on (a) max_over_time(y[1h:]) > hour()")


def test_a_walk_gives_a_parent_before_its_children_in_source_order() -> None:
    nodes = list(walk(EXPRESSION))
    assert isinstance(nodes[0], Binary)
    leaves = [node.name for node in nodes if isinstance(node, VectorSelector)]
    assert leaves == ["x", "y"]


def test_each_kind_of_node_can_be_asked_for() -> None:
    assert [s.name for s in selectors(EXPRESSION)] == ["x", "y"]
    assert [m.range.milliseconds for m in matrix_selectors(EXPRESSION)] == [300_000]
    assert [c.func for c in calls(EXPRESSION)] == ["rate", "max_over_time", "hour"]
    assert [a.op for a in aggregates(EXPRESSION)] == ["sum"]
