"""The examples of docs/testing-delivery.md, run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.main import main

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).parents[3] / "docs" / "testing-delivery.md"
FILE = re.compile(r"^`([^`\n]+)`[^`\n]*:\n\n```(?:yaml|json)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"```console\n\$ stallwatch ([^\n]+)\n(.*?)```", re.DOTALL)


FAILED = re.compile(r"```text\n(routes.*?)```", re.DOTALL)


def test_what_the_page_shows_is_what_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    files = FILE.findall(text)
    assert [name for name, _ in files] == ["stallwatch.yaml", "routes.test.yaml", "alerts.json"]
    for name, content in files:
        (tmp_path / name).write_text(content)
    shown = SHOWN.findall(text)
    assert shown
    for command, output in shown:
        assert main(command.split()) == 0
        assert capsys.readouterr().out == output
    test = tmp_path / "routes.test.yaml"
    test.write_text(test.read_text().replace("at: 7h30s", "at: 30s"))
    assert main(["test", "routes.test.yaml"]) == 1
    assert FAILED.findall(text) == [capsys.readouterr().out]


def test_every_field_is_on_the_page() -> None:
    from notifiers.deliverytest import loader

    known = (*loader._SUITE, *loader._TEST, *loader._ALERT, *loader._SILENCE, *loader._MESSAGE)
    text = PAGE.read_text()
    assert [name for name in (*known, *loader.REASONS) if f"`{name}`" not in text] == []
