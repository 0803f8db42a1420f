"""Findings in labels and annotations, and in the fields beside the expression."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rules.lint import Settings, lint
from rules.loader import load_file, load_source
from rules.packs import shipped
from rules.source import Source

if TYPE_CHECKING:
    from pathlib import Path

RULE = """\
groups:
  - name: g
    interval: 30s
    rules:
      - alert: A
        expr: sum by (task_id) (rate(tcp_retrans_total[5m])) > 0.5
"""


def findings(more: str, settings: Settings | None = None) -> list[tuple[str, str, str]]:
    loaded = load_source(Source("case.yaml", RULE + more))
    assert loaded.file is not None, loaded.problems
    return [
        (one.code, one.source.text[one.span.start : one.span.end], one.message)
        for one in lint(loaded.file, settings or Settings())
    ]


@pytest.mark.parametrize(
    ("template", "place"),
    [
        ("{{ $labels.rank }}", "$labels.rank"),
        ("{{ .Labels.rank }}", ".Labels.rank"),
        ("{{ $.Labels.rank }}", "$.Labels.rank"),
        ("{{ index $labels `rank` }}", "`rank`"),
        ("{{ if eq $labels.rank `0` }}first{{ end }}", "$labels.rank"),
        ("{{ printf `%s` ($labels.rank | toUpper) }}", "$labels.rank"),
        ("{{ range query `up` }}{{ .Labels.rank }}{{ end }}", None),
        ("{{ with $labels.task_id }}{{ .Labels }}{{ end }}", None),
        ("{{ $labels.task_id }} {{ $value }} {{ $externalLabels.rank }}", None),
        ("{{ range $name, $text := $labels }}{{ $name }}{{ end }}", None),
    ],
)
def test_a_label_that_the_aggregation_dropped_is_found_where_it_is_read(
    template: str, place: str | None
) -> None:
    found = findings(f'        annotations: {{summary: "{template}"}}\n')
    message = "the result never has the label 'rank'; its labels: task_id"
    assert found == ([] if place is None else [("label-not-in-result", place, message)])


def test_a_label_of_the_rule_itself_is_not_among_the_results() -> None:
    text = "        labels: {tier: '1'}\n        annotations: {summary: '{{ $labels.tier }}'}\n"
    loaded = load_source(Source("case.yaml", RULE + text))
    assert loaded.file is not None
    (found,) = lint(loaded.file)
    assert found.hint == "$labels are the result's labels, without those that the rule adds"


@pytest.mark.parametrize(
    ("template", "what"),
    [
        ("{{ $value }}", "the value"),
        ("{{ .Value | humanize }}", "the value"),
        ("{{ range query `up` }}{{ .Value }}{{ end }}", "a query's result"),
        ("{{ if gt $value 5.0 }}high{{ else }}low{{ end }}", None),
        ("{{ $labels.task_id }}", None),
    ],
)
def test_a_label_that_changes_with_the_value_is_found(template: str, what: str | None) -> None:
    found = findings(f'        labels: {{level: "{template}"}}\n')
    assert [code for code, _, _ in found] == ([] if what is None else ["changing-label"])
    if what is not None:
        assert f"the label 'level' changes with {what}" in found[0][2]


@pytest.mark.parametrize(
    ("wait", "is_found"), [("20s", True), ("30s", False), ("0s", False), ("5m", False)]
)
def test_a_for_below_the_interval_is_found(wait: str, is_found: bool) -> None:
    found = findings(f"        for: {wait}\n")
    expected = ("for-below-interval", wait, f"'for: {wait}' is shorter than the interval of 30s")
    assert [(code, place) for code, place, _ in found] == ([expected[:2]] if is_found else [])


def test_an_annotation_leaves_a_finding_out() -> None:
    text = "        for: 20s\n        annotations: {stallwatch_lint_ignore: for-below-interval}\n"
    assert findings(text) == []
    assert findings("        for: 20s\n", Settings(ignored=frozenset({"for-below-interval"}))) == []


def test_a_label_that_a_recording_rule_dropped_is_found_as_well() -> None:
    text = (
        "      - record: task:retrans\n"
        "        expr: sum by (task_id) (rate(tcp_retrans_total[5m]))\n"
        "        labels: {tier: '1'}\n"
        "      - alert: B\n"
        "        expr: task:retrans > 1\n"
        "        annotations: {summary: '{{ $labels.tier }} {{ $labels.rank }}'}\n"
    )
    assert [(code, place) for code, place, _ in findings(text)] == [
        ("label-not-in-result", "$labels.rank")
    ]


def test_an_operators_object_is_read_like_a_file(tmp_path: Path) -> None:
    inner = "\n".join(f"  {line}" for line in RULE.splitlines())
    text = f"apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nspec:\n{inner}\n"
    path = tmp_path / "object.yaml"
    path.write_text(text + "          for: 20s\n", encoding="utf-8")
    loaded = load_file(path)
    assert loaded.file is not None
    assert [one.code for one in lint(loaded.file)] == ["for-below-interval"]


def test_the_shipped_packs_have_no_findings() -> None:
    for path in shipped():
        file = load_file(path).file
        assert file is not None
        assert [one.render() for one in lint(file)] == []


def test_every_public_rule_file_can_be_linted(shared: Path) -> None:
    files = [load_file(path).file for path in sorted((shared / "cases/rulefiles").rglob("*.y*ml"))]
    found = [one for file in files if file is not None for one in lint(file)]
    # count() == 0, labels that never match, a sum of zeros above zero: all real, all public.
    assert sum(one.code == "never-fires" for one in found) >= 6
    assert all(one.source.text[one.span.start : one.span.end].strip() for one in found)


def test_a_chain_of_thousands_is_linted_without_recursion() -> None:
    chain = " or ".join(f"x{number} > 0" for number in range(200))
    loaded = load_source(Source("case.yaml", RULE.replace("sum by", f"{chain} or sum by")))
    assert loaded.file is not None
    assert lint(loaded.file) == ()
