from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rules.decoding import UnreadableError, decode
from rules.document import compose
from rules.loader import find_files, load_file, load_paths, load_source
from rules.model import AlertingRule, RecordingRule
from rules.source import ProblemsError, Source

if TYPE_CHECKING:
    import random

BAD = Path(__file__).parent / "cases" / "bad"

RULES = """\
groups:
  - name: a
    interval: 30s
    query_offset: 1m
    limit: 10
    labels: {team: ml, tier: "2"}
    rules:
      - &first
        alert: A
        expr: &expr |
          sum(up)
            > 1
        for: 5m
        keep_firing_for: 1m
        labels: {tier: 1}
        annotations:
          summary: '{{ $value }} of {{ $labels.job }}'
      - record: a:b
        expr: *expr
      - <<: *first
        alert: B
"""


def test_a_rule_file_becomes_a_model() -> None:
    loaded = load_source(Source("a.yaml", RULES))
    assert loaded.problems == ()
    assert loaded.file is not None
    (group,) = loaded.file.groups
    assert (group.name, group.file) == ("a", "a.yaml")
    assert (group.interval_ms, group.query_offset_ms, group.limit) == (30_000, 60_000, 10)
    first, recorded, merged = group.rules
    assert isinstance(first, AlertingRule)
    assert isinstance(recorded, RecordingRule)
    assert isinstance(merged, AlertingRule)
    assert first.labels == {"team": "ml", "tier": "1"}
    assert (first.for_ms, first.keep_firing_for_ms) == (300_000, 60_000)
    assert recorded.labels == {"team": "ml", "tier": "2"}
    assert merged.name == "B"
    assert merged.annotations == first.annotations
    assert merged.for_ms == first.for_ms


def test_what_is_ours_to_say_about_a_rule_is_an_annotation_and_no_field() -> None:
    rule = "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: up == 0\n"
    said = load_source(Source("a.yaml", f"{rule}    annotations: {{stallwatch_lint_ignore: x}}\n"))
    assert said.problems == ()
    assert said.file is not None
    (own,) = said.file.groups[0].rules
    assert isinstance(own, AlertingRule)
    assert own.annotations == {"stallwatch_lint_ignore": "x"}
    (problem,) = load_source(Source("a.yaml", f"{rule}    stallwatch_lint_ignore: x\n")).problems
    assert (problem.place, problem.severity) == ("a.yaml:6:5", "error")
    assert "stallwatch_lint_ignore" in problem.message


def test_the_resolve_expression_stands_in_an_annotation_and_is_parsed_there() -> None:
    text = """\
groups:
- name: a
  rules:
  - alert: A
    expr: up < 1
    annotations:
      stallwatch_resolve_expr: |
        up
          < 2
"""
    loaded = load_source(Source("a.yaml", text))
    assert loaded.problems == ()
    assert loaded.file is not None
    (own,) = loaded.file.groups[0].rules
    assert isinstance(own, AlertingRule)
    assert own.resolve is not None
    assert own.expressions == (own.expression, own.resolve)
    line, column = own.resolve.source.position(own.resolve.offsets[own.resolve.text.index("<")])
    assert (line, column) == (9, 11)
    # Prometheus takes it for an annotation, and so do the alert and promtool's tests.
    assert own.annotations == {"stallwatch_resolve_expr": "up\n  < 2\n"}


def test_a_setting_that_is_misspelt_is_named_and_one_of_others_is_not() -> None:
    rule = "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: up == 0\n    annotations:\n"
    text = f"{rule}      stallwatch_resolve_exp: up < 2\n      stallwatch_picture: x\n"
    (problem,) = load_source(Source("a.yaml", text)).problems
    assert (problem.place, problem.severity) == ("a.yaml:7:7", "warning")
    assert problem.hint == "did you mean 'stallwatch_resolve_expr'?"


def test_a_place_in_an_expression_is_a_place_in_the_file() -> None:
    loaded = load_source(Source("a.yaml", RULES))
    assert loaded.file is not None
    expression = loaded.file.groups[0].rules[0].expression
    at = expression.text.index("> 1")
    assert expression.source.position(expression.offsets[at]) == (12, 13)
    assert RULES[expression.offsets[at] :].startswith("> 1")


@pytest.mark.parametrize("case", sorted(BAD.glob("*.yaml")), ids=lambda path: Path(path).stem)
def test_a_broken_rule_file_is_refused_at_the_place(
    case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(BAD)
    loaded = load_file(case.name)
    assert loaded.file is None
    shown = "\n".join(problem.render() for problem in loaded.problems)
    assert f"{shown}\n" == case.with_suffix(".expected").read_text(encoding="utf-8")
    places = [problem.span.start for problem in loaded.problems]
    assert places == sorted(places)


def test_what_prometheus_loads_loads() -> None:
    for text in (
        "groups: []\n",
        "groups:\n",
        "groups:\n- name: a\n",
        "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: 1\n    for:\n    labels: {a: }\n",
        "groups:\n- name: a\n  limit: -1\n  rules:\n  - record: 'a b'\n    expr: up\n",
        "groups:\n- name: a\n  interval: 0\n",
        "groups:\n- {name: a, rules: [{record: b, expr: up, for: 0s, annotations: {}}]}\n",
        '{"groups": [{"name": "json", "rules": [{"alert": "A", "expr": "up == 0"}]}]}',
        "---\ngroups: []\n...\n",
    ):
        assert load_source(Source("a.yaml", text)).problems == (), text


def test_only_the_first_document_is_read_with_a_warning() -> None:
    for rest in ("groups: [{name: b}]\n", "not: [yaml\n", "\t\n"):
        loaded = load_source(Source("a.yaml", f"groups: [{{name: a}}]\n---\n{rest}"))
        assert loaded.file is not None
        assert [group.name for group in loaded.file.groups] == ["a"]
        (warning,) = loaded.problems
        assert warning.severity == "warning"
        assert "only the first YAML document" in warning.message


def test_a_rule_twice_is_a_warning() -> None:
    rule = "  - record: a\n    expr: up\n    labels: {x: y}\n"
    loaded = load_source(Source("a.yaml", f"groups:\n- name: a\n  rules:\n{rule}{rule}"))
    assert loaded.file is not None
    (warning,) = loaded.problems
    assert warning.place == "a.yaml:7:13"
    assert warning.hint == "it stands on line 4; the two write to the same series"


FUTILE = {
    "count_over_time(x[step()]) > 1": "19: the duration must be greater than 0",
    "rate(x[5m - 1h])": "8: the duration must be greater than 0",
    "x offset (1h / range())": "14: division by zero in a duration",
    "max_over_time(x[5m] anchored)": "15: anchored can only be used with changes, delta, increase",
    "deriv(x[5m] smoothed)": "7: smoothed can only be used with delta, increase, rate, not with",
}


@pytest.mark.parametrize("expr", FUTILE)
def test_what_fails_at_every_evaluation_is_a_warning(expr: str) -> None:
    text = f"groups:\n- name: a\n  rules:\n  - record: b\n    expr: {expr}\n"
    loaded = load_source(Source("a.yaml", text))
    assert loaded.file is not None
    (warning,) = loaded.problems
    column, _, message = FUTILE[expr].partition(": ")
    assert warning.place == f"a.yaml:5:{10 + int(column)}"
    assert warning.message.startswith(message)
    assert warning.message.endswith("every evaluation will fail")
    assert warning.severity == "warning"


def test_what_may_have_a_value_is_no_warning() -> None:
    for expr in ("rate(x[step() + 5m] anchored)", "x offset (step() - 5m)", "x smoothed"):
        text = f"groups:\n- name: a\n  rules:\n  - record: b\n    expr: {expr}\n"
        assert load_source(Source("a.yaml", text)).problems == ()


def test_legacy_names_are_refused_only_on_request(shared: Path) -> None:
    folder = shared / "cases/rulefiles/rulefmt"
    bad = folder / "legacy_validation_annotation.bad.yaml"
    assert load_file(bad).file is not None
    loaded = load_file(bad, names="legacy")
    assert loaded.file is None
    assert loaded.problems[0].message == "not a valid annotation name: 'ins-tance'"
    good = folder / "legacy_validation_annotation.good.yaml"
    assert load_file(good, names="legacy").file is not None


REFUSED = {
    "bad_expr.bad.yaml": (5, 20, "expects a range vector"),
    "bad_field.bad.yaml": (8, 9, "no field 'annotation'"),
    "duplicate_grp.bad.yaml": (3, 11, "'yolo' appears twice"),
    "invalid_label_name.bad.yaml": (7, 11, "'__name__' cannot be set"),
    "invalid_record_name.bad.yaml": (4, 17, "braces"),
    "no_rec_alert.bad.yaml": (4, 9, "'alert' or 'record'"),
    "noexpr.bad.yaml": (4, 9, "needs an 'expr'"),
    "record_and_alert.bad.yaml": (5, 16, "not both"),
    "record_and_for.bad.yaml": (6, 9, "no 'for'"),
    "record_and_keep_firing_for.bad.yaml": (6, 9, "no 'keep_firing_for'"),
}


def test_every_public_rule_file_gets_the_verdict_of_prometheus(shared: Path) -> None:
    files = find_files([shared / "cases/rulefiles"])
    assert len(files) > 70
    for path in files:
        loaded = load_file(path)
        errors = [problem for problem in loaded.problems if problem.severity == "error"]
        if path.name not in REFUSED:
            assert errors == [], path
            assert loaded.file is not None
            continue
        line, column, message = REFUSED[path.name]
        (error,) = errors
        assert error.source.position(error.span.start) == (line, column), path
        assert message in error.message


# Of promtool's unit tests: rule files that must load, with warnings, and those refused.
RULE_FILES_OF_TESTS = {
    "at-modifier.yml": (),
    "bad-rules-error.yml": (),
    "negative-offset.yml": (),
    "rules.yml": (),
    "rules_duplicates.yml": ("18:17: another rule named", "23:17: another rule named"),
    "rules_extrafields.yml": (
        "7:5: a group has no field 'namespace'",
        "21:5: a group has no field 'ownership'",
    ),
    "bad-rules-syntax.yml": ("7:22: unexpected end of expression",),
}


@pytest.mark.parametrize("name", RULE_FILES_OF_TESTS)
def test_the_rule_files_of_public_unit_tests_get_their_verdict(shared: Path, name: str) -> None:
    loaded = load_file(shared / "cases/ruletests" / name)
    said = [f"{p.place.partition('.yml:')[2]}: {p.message}" for p in loaded.problems]
    expected = RULE_FILES_OF_TESTS[name]
    assert len(said) == len(expected)
    assert all(text.startswith(start) for text, start in zip(said, expected, strict=True))
    refused = name in {"rules_extrafields.yml", "bad-rules-syntax.yml"}
    assert (loaded.file is None) == refused


def test_unit_test_files_are_told_from_rule_files(shared: Path) -> None:
    files = sorted((shared / "cases/ruletests").glob("*.yml"))
    for path in files:
        if path.name not in RULE_FILES_OF_TESTS:
            (problem,) = load_file(path).problems
            assert "unit-test file" in problem.hint


def test_files_directories_and_globs_are_found_once(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.yaml", "a.yml", "sub/c.yaml", "notes.txt"):
        (tmp_path / name).write_text("groups: []\n")
    found = find_files([tmp_path / "b.yaml", tmp_path, f"{tmp_path}/*.y*ml"])
    names = [path.name for path in found]
    assert names == ["b.yaml", "a.yml", "c.yaml"]
    assert len(load_paths([tmp_path])) == 3


def test_two_stars_find_each_folder_once_however_many_links_lead_back_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.yaml", "x/b.yaml", "x/y[1]/c.yaml", "x/.hidden/d.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("groups: []\n")
    # Two loops that are followed double the paths at every level.
    (tmp_path / "x/back").symlink_to(tmp_path)
    (tmp_path / "x/again").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    below = [Path("x/b.yaml"), Path("x/y[1]/c.yaml")]
    assert find_files(["**/*.yaml"]) == (Path("a.yaml"), *below)
    assert find_files(["x/**/**/[bc].yaml"]) == tuple(below)
    assert find_files([f"{tmp_path}/**/b.yaml"]) == (tmp_path / "x/b.yaml",)


def test_paths_that_name_nothing_cannot_be_loaded(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.yaml", f"{tmp_path}/*.yaml"):
        with pytest.raises(UnreadableError, match=str(tmp_path)):
            load_paths([path])


def test_the_errors_of_all_files_come_together(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("group: []\n")
    (tmp_path / "b.yaml").write_text("groups: [{name: a, rules: [{alert: A, expr: 'up ='}]}]\n")
    with pytest.raises(ProblemsError) as caught:
        load_paths([tmp_path])
    assert {problem.source.name for problem in caught.value.problems} == {
        str(tmp_path / "a.yaml"),
        str(tmp_path / "b.yaml"),
    }


def test_a_file_in_utf16_with_its_mark_is_read() -> None:
    source = decode("a.yaml", "groups: []\n".encode("utf-16"))
    assert source.text == "groups: []\n"


def test_a_huge_file_is_refused() -> None:
    with pytest.raises(ProblemsError, match="larger than 16 MiB"):
        decode("a.yaml", b"#" * (16 * 1024 * 1024 + 1))


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_any_bytes_load_or_are_located_problems(content: bytes) -> None:
    try:
        source = decode("a.yaml", content)
    except ProblemsError:
        return
    loaded = load_source(source)
    assert (loaded.file is None) == any(p.severity == "error" for p in loaded.problems)
    assert all(problem.render() for problem in loaded.problems)


@given(st.randoms(use_true_random=False), st.integers(1, 6))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_damaged_rule_file_loads_or_has_located_problems(
    chance: random.Random, damages: int
) -> None:
    text = RULES
    for _ in range(damages):
        at = chance.randrange(len(text))
        length = chance.choice((0, 1, 2, 10))
        insert = chance.choice(
            ("", "\n", " ", "\t", ":", "- ", "'", '"', "{", "}", "[", "&a ", "*a ", "|", ">", "#",
             "{{", "}}", "<<: ", "!!int ", "? ", "%", "@", "`", "\r", "\u2028", "\\", "5m", "...")
        )  # fmt: skip
        text = text[:at] + insert + text[at + length :]
    loaded = load_source(Source("a.yaml", text))
    assert (loaded.file is None) == any(p.severity == "error" for p in loaded.problems)
    for problem in loaded.problems:
        assert problem.render()
        assert 0 <= problem.span.start <= len(text)


@given(st.text(max_size=60))
@settings(max_examples=200)
def test_any_text_composes_or_is_a_located_problem(text: str) -> None:
    try:
        source = decode("a.yaml", text.encode())
    except ProblemsError:
        return
    document = compose(source)
    assert all(problem.render() for problem in document.problems)


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "---\n", "null\n"])
def test_an_empty_file_is_zero_rules_and_a_warning(text: str) -> None:
    loaded = load_source(Source("a.yaml", text))
    assert loaded.file is not None
    assert loaded.file.groups == ()
    assert [(p.message, p.severity) for p in loaded.problems] == [("the file is empty", "warning")]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("x[5m]", "a range vector is no result for a rule: every evaluation will fail"),
        ("'x'", "a string is no result for a rule: every evaluation will fail"),
    ],
)
def test_a_rule_that_can_only_fail_loads_with_a_warning(expression: str, message: str) -> None:
    text = f"groups:\n- name: g\n  rules:\n  - record: r\n    expr: |\n      {expression}\n"
    loaded = load_source(Source("a.yaml", text))
    assert loaded.file is not None
    (problem,) = loaded.problems
    assert (problem.message, problem.severity, problem.place) == (message, "warning", "a.yaml:6:7")
    assert problem.span.end - problem.span.start == len(expression)


def test_a_named_pipe_is_read_and_never_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "rules.yaml"
    os.mkfifo(pipe)
    with pytest.raises(UnreadableError, match="a pipe that nobody writes to"):
        load_file(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)
    os.write(writer, b"groups: []\n")
    threading.Timer(0.05, os.close, [writer]).start()
    assert load_file(pipe).file is not None
    os.close(reader)


def test_hidden_files_of_a_directory_are_not_rules(tmp_path: Path) -> None:
    # How Kubernetes mounts a ConfigMap: every file twice, once below a hidden directory.
    (tmp_path / "..2026_11_29").mkdir()
    (tmp_path / "..2026_11_29" / "a.yaml").write_text(RULES)
    (tmp_path / "..data").symlink_to("..2026_11_29")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    (tmp_path / ".#a.yaml").symlink_to("user@host.1234")
    assert find_files([tmp_path]) == (tmp_path / "a.yaml",)


def test_an_empty_path_is_not_the_current_directory() -> None:
    with pytest.raises(UnreadableError, match="a path is empty"):
        find_files([""])


def test_a_directory_that_cannot_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(place: str) -> None:
        raise PermissionError(13, "Permission denied", str(place))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UnreadableError, match="Permission denied"):
        find_files([tmp_path])
