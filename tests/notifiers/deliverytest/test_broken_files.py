"""What is wrong with a file of delivery tests is shown at its place: `broken/` has the messages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.cli.main import main

BROKEN = Path(__file__).with_name("broken")
CONFIGS = {"stallwatch.yaml", "quick.yaml"}
FILES = sorted(path.name for path in BROKEN.glob("*.yaml") if path.name not in CONFIGS)


@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_is_refused_at_the_place(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(BROKEN)
    assert main(["test", name]) == 2
    shown = capsys.readouterr().err
    expected = BROKEN / name.replace(".yaml", ".txt")
    if os.environ.get("STALLWATCH_WRITE_GOLDEN"):
        expected.write_text(shown)
    assert shown == expected.read_text()


def test_every_message_belongs_to_a_file() -> None:
    assert {path.stem for path in BROKEN.glob("*.txt")} == {Path(name).stem for name in FILES}
