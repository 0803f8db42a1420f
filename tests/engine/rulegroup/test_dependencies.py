from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.rulegroup.dependencies import (
    Component,
    components,
    metrics_asked,
    metrics_in,
    read_by_others,
)
from rules.promql.parser import parse

if TYPE_CHECKING:
    from rules.model import Rule
    from tests.engine.conftest import Rules


def parts(made: list[Rule], offsets: list[int] | None = None) -> list[tuple[tuple[int, ...], bool]]:
    found = components(list(zip(made, offsets or [0] * len(made), strict=True)))
    return [(own.members, own.stepwise) for own in found]


@pytest.fixture
def make(rules: Rules) -> list[Rule]:
    return [rules.record("a", "x"), rules.record("b", "a + 1"), rules.alert("C", "b > 1")]


def test_a_chain_over_earlier_output_goes_along_the_whole_axis(make: list[Rule]) -> None:
    assert parts(make) == [((0,), False), ((1,), False), ((2,), False)]


def test_own_output_goes_step_by_step_and_nothing_else_does(rules: Rules) -> None:
    made: list[Rule] = [rules.record("a", "x"), rules.record("b", "b + a"), rules.record("c", "b")]
    assert parts(made) == [((0,), False), ((1,), True), ((2,), False)]


def test_what_the_resolve_expression_reads_counts_as_what_the_expression_reads(
    rules: Rules,
) -> None:
    made: list[Rule] = [
        rules.alert("A", "x > 2", resolve="c > 1"),
        rules.record("b", "x"),
        rules.record("c", "y"),
        rules.alert("D", "x > 2", resolve='ALERTS{alertname="D"}'),
    ]
    assert parts(made) == [((0, 2), True), ((1,), False), ((3,), True)]
    assert read_by_others(made) == [False, False, True, True]
    assert metrics_asked(made[:1]) == frozenset({"x", "c", "comm_wait_ratio"})


def test_later_output_is_read_step_by_step(rules: Rules) -> None:
    made: list[Rule] = [rules.record("a", "c"), rules.record("b", "x"), rules.record("c", "x")]
    assert parts(made) == [((0, 2), True), ((1,), False)]


def test_everything_on_a_way_around_is_one_component(rules: Rules) -> None:
    made: list[Rule] = [
        rules.record("a", "c"),
        rules.record("b", "a"),
        rules.record("c", "b"),
        rules.record("d", "c"),
    ]
    assert parts(made) == [((0, 1, 2), True), ((3,), False)]


def test_an_alert_that_reads_alerts_reads_itself(rules: Rules) -> None:
    made: list[Rule] = [rules.alert("A", "x"), rules.alert("B", "count(ALERTS)")]
    assert parts(made) == [((0,), False), ((1,), True)]


def test_alerts_of_one_name_are_only_that_rules(rules: Rules) -> None:
    made: list[Rule] = [rules.alert("A", "x"), rules.alert("B", 'ALERTS{alertname="A"}')]
    assert parts(made) == [((0,), False), ((1,), False)]


@pytest.mark.parametrize("expr", ['{job="a"}', '{__name__=~"a|b"}', '{__name__!="a",job="a"}'])
def test_a_selector_without_a_fixed_name_reads_everything(rules: Rules, expr: str) -> None:
    made: list[Rule] = [rules.record("a", "x"), rules.record("b", expr), rules.record("c", "x")]
    assert parts(made) == [((0,), False), ((1, 2), True)]


def test_info_reads_the_metric_that_it_adds_labels_from(rules: Rules) -> None:
    made: list[Rule] = [rules.record("a", "info(x)"), rules.record("target_info", "y")]
    assert parts(made) == [((0, 1), True)]
    assert read_by_others(made) == [False, True]


def test_a_fixed_name_may_stand_in_braces(rules: Rules) -> None:
    made: list[Rule] = [rules.record("a", "x"), rules.record("b", '{__name__="a"}')]
    assert parts(made) == [((0,), False), ((1,), False)]


def test_a_template_that_queries_reads_everything(rules: Rules) -> None:
    made: list[Rule] = [
        rules.alert("A", "x", annotations={"text": '{{ query "b" | first | value }}'}),
        rules.record("b", "x"),
    ]
    assert parts(made) == [((0, 1), True)]


def test_a_writer_with_a_longer_query_offset_than_its_reader_goes_step_by_step(
    make: list[Rule],
) -> None:
    assert parts(make, [10, 0, 0]) == [((0, 1), True), ((2,), False)]
    assert parts(make, [0, 10, 10]) == [((0,), False), ((1,), False), ((2,), False)]


def test_only_what_some_rule_reads_is_kept(make: list[Rule]) -> None:
    assert read_by_others(make) == [True, True, False]


def test_no_rules_no_components() -> None:
    assert components([]) == ()
    assert Component((0,), stepwise=True).members == (0,)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("a + sum(rate(b[5m]))", {"a", "b"}),
        ('{__name__="a"}', {"a"}),
        ('ALERTS{alertname="x"}', {"ALERTS", "ALERTS_FOR_STATE"}),
        ('a + {job="x"}', None),
        ("info(a)", None),
        ("vector(1)", set()),
    ],
)
def test_what_an_expression_asks_data_for_is_known_from_its_selectors(
    expr: str, expected: set[str] | None
) -> None:
    found = metrics_in(parse(expr))
    assert (None if found is None else set(found)) == expected


def test_a_replay_asks_for_evidence_and_for_anything_where_a_template_queries(rules: Rules) -> None:
    made: list[Rule] = [rules.alert("A", "a"), rules.alert("B", "b")]
    assert metrics_asked(made) == frozenset({"a", "b", "comm_wait_ratio"})
    queries = rules.alert("C", "c", annotations={"x": '{{ query "up" }}'})
    assert metrics_asked([rules.alert("A", "a"), queries]) is None
