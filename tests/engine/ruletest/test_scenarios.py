"""What a scenario's rules see and when, as promtool has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest

from engine.ruletest.running import run_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.ruletest.verdict import SuiteVerdict


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str, str], SuiteVerdict]:
    """Runs the text of a test file over the text of a rule file, `rules.yaml`."""

    def run(rules: str, test: str) -> SuiteVerdict:
        (tmp_path / "rules.yaml").write_text(rules)
        (tmp_path / "test.yaml").write_text("rule_files: [rules.yaml]\n" + test)
        verdict = run_file(tmp_path / "test.yaml")
        assert not verdict.problems, verdict.problems
        return verdict

    return run


Run: TypeAlias = "Callable[[str, str], SuiteVerdict]"


def test_every_group_is_evaluated_at_the_evaluation_interval(run: Run) -> None:
    rules = """
groups:
- {name: slow, interval: 1h, rules: [{record: ticks, expr: time()}]}
"""
    verdict = run(
        rules,
        """
evaluation_interval: 30s
tests:
- promql_expr_test:
  - {expr: 'count_over_time(ticks[5m])', eval_time: 5m, exp_samples: [{value: 10}]}
  - {expr: ticks, eval_time: 59s, exp_samples: [{labels: ticks, value: 30}]}
""",
    )
    assert verdict.failures == ()


def test_alerts_are_those_of_the_last_evaluation_at_or_before_the_time(run: Run) -> None:
    rules = "groups: [{name: a, rules: [{alert: Up, expr: x > 0}]}]"
    verdict = run(
        rules,
        """
evaluation_interval: 1m
tests:
- interval: 1s
  input_series: [{series: x, values: '0x89 1x60'}]
  alert_rule_test:
  - {eval_time: 119s, alertname: Up}
  - {eval_time: 2m, alertname: Up, exp_alerts: [{}]}
""",
    )
    assert verdict.failures == ()


def test_an_input_series_of_a_recorded_name_is_there_beside_what_the_rule_records(
    run: Run,
) -> None:
    rules = "groups: [{name: a, rules: [{record: r, expr: x + 1}]}]"
    verdict = run(
        rules,
        """
tests:
- input_series:
  - {series: 'r{from="input"}', values: '5x3'}
  - {series: r, values: '9 _ 9'}
  - {series: x, values: '0x3'}
  promql_expr_test:
  - expr: r
    eval_time: 0
    exp_samples: [{labels: r, value: 9}, {labels: 'r{from="input"}', value: 5}]
  - {expr: 'r{from=""}', eval_time: 1m, exp_samples: [{labels: r, value: 1}]}
  - {expr: 'r{from=""}', eval_time: 2m, exp_samples: [{labels: r, value: 9}]}
""",
    )
    assert verdict.failures == ()


def test_a_check_sees_no_sample_after_the_last_evaluation(run: Run) -> None:
    verdict = run(
        "groups: []",
        """
evaluation_interval: 1m
tests:
- interval: 1s
  input_series: [{series: x, values: '0+1x200'}]
  promql_expr_test:
  - {expr: x, eval_time: 90s, exp_samples: [{labels: x, value: 60}]}
  - {expr: x offset -20s, eval_time: 30s, exp_samples: [{labels: x, value: 50}]}
""",
    )
    assert verdict.failures == ()


def test_groups_run_in_the_order_that_the_file_says(run: Run) -> None:
    rules = """
groups:
- {name: second, rules: [{record: b, expr: a}]}
- {name: first, rules: [{record: a, expr: time()}]}
"""
    test = "tests: [{promql_expr_test: [{expr: b, eval_time: 1m, exp_samples: [%s]}]}]"
    in_file_order = run(rules, test % "{labels: b, value: 0}")
    assert in_file_order.failures == ()
    order = "group_eval_order: [first, second]\n"
    assert run(rules, order + test % "{labels: b, value: 60}").failures == ()


def test_external_labels_and_the_url_are_what_templates_see(run: Run) -> None:
    rules = """
groups:
- name: a
  rules:
  - alert: A
    expr: x
    labels: {site: '{{ $externalLabels.site }}'}
    annotations: {link: '{{ $externalURL }}{{ externalURL }}'}
"""
    verdict = run(
        rules,
        """
tests:
- input_series: [{series: x, values: 1}]
  external_labels: {site: north}
  external_url: http://p.example
  alert_rule_test:
  - alertname: A
    exp_alerts:
    - exp_labels: {site: north}
      exp_annotations: {link: http://p.examplehttp://p.example}
""",
    )
    assert verdict.failures == ()


def test_a_year_by_the_minute_is_evaluated_along_the_axis(run: Run) -> None:
    rules = """
groups:
- name: a
  rules:
  - {record: r, expr: x * 2}
  - {alert: A, expr: r > 10, for: 1d}
"""
    verdict = run(
        rules,
        """
tests:
- interval: 1d
  input_series: [{series: x, values: '1x363 6x5'}]
  alert_rule_test:
  - {eval_time: 364d, alertname: A}
  - {eval_time: 365d, alertname: A}
  promql_expr_test:
  - {expr: 'max_over_time(r[1y])', eval_time: 365d, exp_samples: [{value: 12}]}
""",
    )
    assert verdict.failures == ()


def test_a_rule_that_fails_fails_the_test_and_the_other_checks_still_run(run: Run) -> None:
    rules = """
groups:
- {name: a, rules: [{record: r, expr: x + on () y}, {record: s, expr: x}]}
"""
    verdict = run(
        rules,
        """
tests:
- input_series:
  - {series: x, values: 1x2}
  - {series: 'y{a="1"}', values: 1x2}
  - {series: 'y{a="2"}', values: _ 1x1}
  promql_expr_test:
  - {expr: s, eval_time: 2m, exp_samples: [{labels: s, value: 2}]}
""",
    )
    rule, check = verdict.failures[1], verdict.failures[0]
    if rule.subject.startswith("expression"):
        rule, check = check, rule
    assert rule.subject == "rule r at 1m (2 times)"
    assert rule.place.endswith("rules.yaml:3:41")
    assert check.subject == "expression 's' at 2m"


@pytest.mark.parametrize(
    ("alert", "hint"),
    [
        ("Slow", "1 alert pending, the first since 0s; 'for' is 5m"),
        ("Slwo", "did you mean 'Slow'?"),
    ],
)
def test_a_missing_alert_is_explained(run: Run, alert: str, hint: str) -> None:
    rules = "groups: [{name: a, rules: [{alert: Slow, expr: x, for: 5m}]}]"
    verdict = run(
        rules,
        f"""
tests:
- input_series: [{{series: x, values: 1x9}}]
  alert_rule_test: [{{eval_time: 4m, alertname: {alert}, exp_alerts: [{{}}]}}]
""",
    )
    (failure,) = verdict.failures
    assert hint in failure.hint


def test_templates_query_and_tell_the_time_of_the_evaluation(run: Run) -> None:
    rules = """
groups:
- name: a
  rules:
  - alert: A
    expr: x > 1
    annotations:
      peer: '{{ with printf "y{host=''%s''}" $labels.host | query }}{{ first . | value }}{{ end }}'
      when: '{{ now }}'
"""
    verdict = run(
        rules,
        """
tests:
- input_series:
  - {series: 'x{host="a"}', values: 0 2x9}
  - {series: 'y{host="a"}', values: 5+1x9}
  - {series: 'y{host="b"}', values: 0x9}
  alert_rule_test:
  - eval_time: 3m
    alertname: A
    exp_alerts: [{exp_labels: {host: a}, exp_annotations: {peer: 8, when: 180}}]
""",
    )
    assert verdict.failures == ()


def test_samples_far_beyond_all_time_are_simply_not_reached(run: Run) -> None:
    verdict = run(
        "groups: []",
        """
tests:
- interval: 200y
  input_series: [{series: x, values: 1+1x100000}]
  promql_expr_test: [{expr: x, eval_time: 1m, exp_samples: [{labels: x, value: 1}]}]
""",
    )
    assert verdict.failures == ()


def test_only_what_follows_from_a_native_histogram_is_left_undecided(run: Run) -> None:
    rules = """
groups:
- name: a
  rules:
  - {record: r, expr: sum(h)}
  - {record: s, expr: r * 2}
  - {alert: A, expr: s > 1}
  - {alert: B, expr: x > 1}
"""
    verdict = run(
        rules,
        """
tests:
- input_series:
  - {series: h, values: '{{count:2 sum:3}}x5'}
  - {series: x, values: 1x5}
  alert_rule_test:
  - {eval_time: 1m, alertname: A}
  - {eval_time: 1m, alertname: B, exp_alerts: [{}]}
  promql_expr_test:
  - {expr: s, exp_samples: [{labels: s, value: 1}]}
  - {expr: h, exp_samples: [{labels: h, value: 3}]}
  - {expr: h, exp_samples: [{labels: h, histogram: '{{sum:3 count:2}}'}]}
  - {expr: x, exp_samples: [{labels: x, histogram: '{{count:1}}'}]}
  - {expr: count(h), exp_samples: [{value: 1}]}
""",
    )
    subjects = [failure.subject for failure in verdict.failures]
    assert subjects == ["alert B at 1m", "expression 'h' at 0s", "expression 'x' at 0s"]
    assert [one.subject for one in verdict.skipped] == ["alert A at 1m", "expression 's' at 0s"]


def test_a_resolve_expression_keeps_an_alert_firing_as_it_does_live(run: Run) -> None:
    rules = """
groups:
- name: a
  rules:
  - alert: Hot
    expr: temperature > 90
    annotations: {stallwatch_resolve_expr: temperature > 80}
"""
    verdict = run(
        rules,
        """
evaluation_interval: 1m
tests:
- interval: 1m
  input_series: [{series: 'temperature{gpu="0"}', values: '85 95 85 85 75 85'}]
  alert_rule_test:
  - {eval_time: 0m, alertname: Hot}
  - eval_time: 3m
    alertname: Hot
    exp_alerts:
    - exp_labels: {gpu: "0"}
      exp_annotations: {stallwatch_resolve_expr: temperature > 80}
  - {eval_time: 4m, alertname: Hot}
  - {eval_time: 5m, alertname: Hot}
""",
    )
    assert verdict.failures == ()
