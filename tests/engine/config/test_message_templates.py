"""Templates of messages in a configuration: checked when it is read, told at their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.config.loader import load_config, load_source
from rules.source import ProblemsError, Source
from rules.templates.values import Struct

if TYPE_CHECKING:
    from pathlib import Path

HOOK = "https://hooks.slack.com/services/T1/B2/s3cretword"
OURS = f"""\
templates: [messages/*.tmpl]
receivers:
  - name: ops
    slack_configs:
      - api_url: {HOOK}
        title: '{{{{ template "our.title" . }}}}'
    email_configs:
      - to: a@example.com
        from: b@example.com
        smarthost: mail.example:25
        headers: {{Subject: 'x {{{{ template "our.title" . }}}}'}}
    apprise_configs:
      - url: pover://012345678901234567890123456789@012345678901234567890123456789/
        text: |
          one
          {{{{ .Status }}}}
"""
THEIRS = """\
route: {receiver: ops}
templates: [messages/*.tmpl]
receivers:
  - name: ops
    opsgenie_configs:
      - api_key: s3cret
        message: 'x {{ template "our.title" . }}'
        description: '{{ .Status }}'
    pagerduty_configs:
      - routing_key: s3cretpagers3cretpagers3cretpage
        description: '{{ template "pagerduty.default.description" . }}'
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "messages").mkdir()
    (tmp_path / "messages/own.tmpl").write_text('{{ define "our.title" }}[{{ .Status }}]{{ end }}')
    return tmp_path


def _load(folder: Path, text: str, *, theirs: bool = False) -> Any:
    name = "alertmanager.yml" if theirs else "stallwatch.yaml"
    (folder / name).write_text(text)
    if theirs:
        (folder / "stallwatch.yaml").write_text("alertmanager_config: alertmanager.yml\n")
    return load_config(folder / "stallwatch.yaml").receivers[0].integrations


def test_a_receivers_texts_use_the_files_templates(folder: Path) -> None:
    slack, mail, push = (one.parsed for one in _load(folder, OURS))
    data = Struct({"Status": "firing"})
    assert slack.title.expand(data) == "[firing]"
    assert mail.headers["Subject"].expand(data) == "x [firing]"
    assert push.text.expand(data) == "one\nfiring\n"


def test_those_of_an_alertmanager_yml_do_too(folder: Path) -> None:
    ops, pager = (one.parsed for one in _load(folder, THEIRS, theirs=True))
    data = Struct({"Status": "firing"})
    assert ops.title.expand(data) == "x [firing]"
    assert ops.text.expand(data) == "firing"
    assert pager.title
    assert "s3cret" not in repr(pager) + repr(ops)


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ('x {{ template "our.title"', 'x {{ template "our.titel"', "stallwatch.yaml:11:34",
         "'headers.Subject': there is no template 'our.titel'"),
        ("{{ .Status }}", "{{ .Status | toUper }}", "stallwatch.yaml:16:24",
         "'text': there is no function 'toUper'"),
        ('title: \'{{ template "our.title" . }}\'', "title: {a: b}", "stallwatch.yaml:6:16",
         "'title': expected text"),
    ],
)  # fmt: skip
def test_a_broken_text_is_told_at_its_place(
    folder: Path, old: str, new: str, place: str, message: str
) -> None:
    assert old in OURS
    with pytest.raises(ProblemsError) as caught:
        _load(folder, OURS.replace(old, new))
    assert f"{place}: {message}" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_broken_text_of_an_alertmanager_yml_is_told_at_its_place(folder: Path) -> None:
    with pytest.raises(ProblemsError) as caught:
        _load(folder, THEIRS.replace("x {{ template", "x {{ tmpl"), theirs=True)
    assert "alertmanager.yml:7:24: 'message': there is no function 'tmpl'" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ('{{ define "a" }}\n{{ if }}{{ end }}{{ end }}', "own.tmpl:2:7", "missing value"),
        ('{{ define "a" }}', "own.tmpl:1:4", "'define' is not closed"),
        ('x\n{{ template "nobody" . }}', "own.tmpl:2:4", "there is no template 'nobody'"),
        ("{{ .Status }", "own.tmpl:1:12", "unexpected"),
    ],
)
def test_a_broken_file_is_told_at_its_place(
    folder: Path, text: str, place: str, message: str
) -> None:
    (folder / "messages/own.tmpl").write_text(text)
    with pytest.raises(ProblemsError) as caught:
        _load(folder, "templates: [messages/*.tmpl]\n")
    assert f"{place}: {message}" in str(caught.value)


@pytest.mark.parametrize("broken", [b'{{ define "our.title" }}{{ if }}{{ end }}', b"\xff\xfe\xd8"])
def test_what_a_broken_file_may_define_is_not_missing_as_well(folder: Path, broken: bytes) -> None:
    (folder / "messages/own.tmpl").write_bytes(broken)
    with pytest.raises(ProblemsError) as caught:
        _load(folder, OURS)
    (problem,) = caught.value.problems
    assert problem.source.name.endswith("own.tmpl")


@pytest.mark.parametrize("pattern", ["[", "a[]b", "x/[a-]*", "[^", "a\\", "[a"])
def test_a_pattern_that_nothing_can_match_is_refused(folder: Path, pattern: str) -> None:
    with pytest.raises(ProblemsError) as caught:
        _load(folder, OURS.replace("messages/*.tmpl", f"'{pattern}'"))
    (problem,) = caught.value.problems
    assert problem.place.endswith("stallwatch.yaml:1:13")
    assert problem.message == f"'{pattern}' is no pattern of file names"
    assert problem.hint


@pytest.mark.parametrize("pattern", ["own]", "[a-z]*.tmpl", "[^a]", "[ab-c].tmpl", "a\\["])
def test_a_pattern_that_only_matches_nothing_is_none_to_refuse(folder: Path, pattern: str) -> None:
    text = f"templates: ['{pattern}']\n"
    config, problems = load_source(Source("stallwatch.yaml", text), folder)
    assert config is not None
    assert [one.severity for one in problems] == ["warning"]


def test_a_file_that_is_no_text_is_refused_and_a_pattern_that_matches_nothing_is_told(
    folder: Path,
) -> None:
    (folder / "messages/bad.tmpl").write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(ProblemsError, match=r"bad\.tmpl"):
        _load(folder, "templates: [messages/*.tmpl]\n")
    text = "templates: [nowhere/*.tmpl]\n"
    config, problems = load_source(Source("stallwatch.yaml", text), folder)
    assert config is not None
    assert [(one.place, one.severity, one.message) for one in problems] == [
        ("stallwatch.yaml:1:13", "warning", "'nowhere/*.tmpl' matches no file")
    ]


def test_the_configuration_shows_its_templates_as_text(folder: Path) -> None:
    (folder / "stallwatch.yaml").write_text(OURS)
    config = load_config(folder / "stallwatch.yaml")
    shown = config.model_dump_json()
    assert "our.title" in shown
    assert "s3cret" not in shown
