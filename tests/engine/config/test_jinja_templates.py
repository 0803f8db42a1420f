"""Jinja in a configuration: `{jinja: ...}` in a field, and files that end in .j2."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from engine.config.loader import load_config
from engine.config.message_templates import MessageTemplate
from rules.source import ProblemsError
from rules.templates.values import Struct

if TYPE_CHECKING:
    from pathlib import Path

DATA = Struct({"Status": "firing"})
OURS = """\
templates: [messages/*]
receivers:
  - name: ops
    slack_configs:
      - api_url: https://hooks.slack.com/services/T1/B2/s3cretword
        title: {jinja: '{% include "title.j2" %}'}
        text: '{{ template "go.text" . }}'
        fields: [{title: State, value: {jinja: '{{ status }}'}}]
    email_configs:
      - to: a@example.com
        from: b@example.com
        smarthost: mail.example:25
        headers: {Subject: {jinja: 'x {{ status|upper }}'}}
        html:
          jinja: |
            <p>
            {{ status }}</p>
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "messages").mkdir()
    (tmp_path / "messages/title.j2").write_text("[{{ status }}]")
    (tmp_path / "messages/go.tmpl").write_text('{{ define "go.text" }}{{ .Status }}{{ end }}')
    return tmp_path


def _load(folder: Path, text: str) -> Any:
    (folder / "stallwatch.yaml").write_text(text)
    return load_config(folder / "stallwatch.yaml")


def test_fields_in_jinja_stand_beside_those_in_go(folder: Path) -> None:
    slack, mail = (one.parsed for one in _load(folder, OURS).receivers[0].integrations)
    assert slack.title.expand(DATA) == "[firing]"
    assert slack.text.expand(DATA) == "firing"
    assert slack.fields[0].value.expand(DATA) == "firing"
    assert mail.headers["Subject"].expand(DATA) == "x FIRING"
    assert mail.html.expand(DATA) == "<p>\nfiring</p>"


def test_the_configuration_shows_them_as_they_are_written(folder: Path) -> None:
    config = _load(folder, OURS)
    shown = json.loads(config.receivers[0].integrations[1].parsed.model_dump_json())
    assert shown["headers"] == {"Subject": {"jinja": "x {{ status|upper }}"}}
    assert "jinja" in repr(MessageTemplate("x", jinja=True))


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("title.j2", "titel.j2", "stallwatch.yaml:6:25",
         "'title': there is no template 'titel.j2'"),
        ("{{ status|upper", "{{ statis|upper", "stallwatch.yaml:13:37",
         "'headers.Subject': 'statis' is not defined"),
        ("{{ status }}</p>", "{{ status </p>", "stallwatch.yaml:17:13", "'html': unexpected '/'"),
        ("{jinja: '{{ status }}'}", "{jinja: '{{ status', a: b}", "stallwatch.yaml:8:40",
         "'fields.0.value': expected text"),
        ("{jinja: '{{ status }}'}", "{jinja: [a]}", "stallwatch.yaml:8:40",
         "'fields.0.value': expected text"),
    ],
)  # fmt: skip
def test_a_broken_one_is_told_at_its_place(
    folder: Path, old: str, new: str, place: str, message: str
) -> None:
    assert old in OURS
    with pytest.raises(ProblemsError) as caught:
        _load(folder, OURS.replace(old, new))
    assert f"{place}: {message}" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_broken_file_is_told_at_its_place(folder: Path) -> None:
    (folder / "messages/title.j2").write_text("a\n{% iff %}")
    with pytest.raises(ProblemsError, match=r"title\.j2:2:1: Encountered unknown tag 'iff'"):
        _load(folder, "templates: [messages/*]\n")


def test_all_files_of_an_alertmanager_yml_are_go_templates(folder: Path) -> None:
    (folder / "messages/title.j2").write_text('{{ define "j.title" }}{{ .Status }}{{ end }}')
    (folder / "alertmanager.yml").write_text(
        "route: {receiver: ops}\ntemplates: [messages/*]\nreceivers:\n  - name: ops\n"
        "    pagerduty_configs:\n      - routing_key: s3cretpagers3cretpagers3cretpage\n"
        "        description: '{{ template \"j.title\" . }}'\n"
    )
    config = _load(folder, "alertmanager_config: alertmanager.yml\n")
    assert config.receivers[0].integrations[0].parsed.title.expand(DATA) == "firing"
