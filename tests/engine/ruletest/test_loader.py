from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ruletest.loader import read_suite
from engine.ruletest.running import RunOptions, run_scenario
from engine.ruletest.scalars import read_number
from rules.errors import StallwatchError
from rules.source import ProblemsError, Source

# What is wrong: line:column and the message.
BAD = [
    ("", "1:1: the file is empty"),
    ("[]", "1:1: a unit-test file must be a mapping, not a list"),
    ("test: []", "1:1: a unit-test file has no field 'test'"),
    ("tests: {}", "1:8: 'tests' must be a list, not a mapping"),
    ("evaluation_interval: 5", "1:22: not a valid duration: '5'"),
    ("group_eval_order: [a, a]", "1:23: the group 'a' appears twice"),
    ("fuzzy_compare: 1", "1:16: 'fuzzy_compare' must be true or false"),
    ("tests: [{intervall: 1m}]", "1:10: a test has no field 'intervall'"),
    ("tests: [{start_timestamp: soon}]", "1:27: not a time: 'soon'"),
    ("tests: [{input_series: [{values: 1}]}]", "1:26: an input series needs a 'series'"),
    ("tests: [{input_series: [{series: 'x{', values: 1}]}]", '1:36: "{" is never closed'),
    ("tests: [{input_series: [{series: x, values: 1 b 2}]}]", "1:47: 'b' is no value"),
    ("tests: [{alert_rule_test: [{eval_time: 1m}]}]", "1:29: an alert_rule_test needs an"),
    ("tests: [{alert_rule_test: [{alertname: A, exp_alerts: [{labels: {}}]}]}]",
     "1:57: an alert has no field 'labels'"),
    ("tests: [{promql_expr_test: [{eval_time: 1m}]}]", "1:30: a promql_expr_test needs an"),
    ("tests: [{promql_expr_test: [{expr: 'rate(x)'}]}]", "1:42: "),
    ("tests: [{promql_expr_test: [{expr: x, exp_samples: [{value: '1'}]}]}]",
     "1:61: 'value' must be a number, not '1'"),
    ("tests: [{promql_expr_test: [{expr: x, exp_samples: [{labels: 'x{'}]}]}]",
     '1:64: "{" is never closed'),
    ("tests: [{promql_expr_test: [{expr: x, exp_samples: [{histogram: '{{a:1}}'}]}]}]",
     "1:65: a native histogram has no 'a'"),
    ("tests: [{a: 1, a: 2}]", "1:16: the key 'a' appears twice"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), BAD, ids=[text[:50] for text, _ in BAD])
def test_a_broken_file_is_refused_at_the_place(text: str, expected: str) -> None:
    with pytest.raises(ProblemsError) as caught:
        read_suite(Source("t.yaml", text))
    assert f"t.yaml:{expected}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1.0), ("-.5", -0.5), ("1e3", 1000.0), ("1_000", 1000.0), ("0x10", 16.0), ("010", 8.0),
     ("0b11", 3.0), (".inf", float("inf")), ("-.INF", float("-inf")), ("Inf", None), ("1s", None),
     ("0o", None), ("", None), ("true", None)],
)  # fmt: skip
def test_numbers_are_those_of_yaml_as_go_reads_it(text: str, value: float | None) -> None:
    assert read_number(text) == value


def test_a_test_that_would_never_end_is_refused_at_its_place() -> None:
    text = "tests: [{name: long, promql_expr_test: [{expr: x, eval_time: 200y}]}]"
    suite = read_suite(Source("t.yaml", text))
    with pytest.raises(ProblemsError) as caught:
        run_scenario(suite, suite.scenarios[0], (), RunOptions())
    assert "t.yaml:1:16: more than 10,000,000 evaluations" in str(caught.value)


EXAMPLE = (Path(__file__).resolve().parents[2] / "rules/packs/gpu.test.yaml").read_text()
PIECES = [
    "{",
    "}",
    "[",
    "]",
    ":",
    "-",
    " ",
    "\n",
    "x5",
    "1",
    "~",
    "'",
    '"',
    "0x9",
    "stale",
    "&a",
    "*a",
]


@given(st.lists(st.tuples(st.integers(0, 900), st.sampled_from(PIECES)), max_size=3))
@settings(max_examples=120, deadline=None)
def test_any_text_runs_or_is_refused_with_a_place(edits: list[tuple[int, str]]) -> None:
    text = EXAMPLE[:900]
    for offset, piece in edits:
        text = text[:offset] + piece + text[offset:]
    places = []
    try:
        suite = read_suite(Source("t.yaml", text))
        for scenario in suite.scenarios:
            if scenario.duration_ms < 10_000_000:
                run_scenario(suite, scenario, (), RunOptions())
    except ProblemsError as error:
        places = [problem.span.start for problem in error.problems]
    except StallwatchError:
        pass
    assert all(0 <= place <= len(text) for place in places)
