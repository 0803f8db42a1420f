"""docs/testing-rules.md: what it shows is what happens."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from engine.cli.main import main

PAGE = (Path(__file__).resolve().parents[3] / "docs/testing-rules.md").read_text(encoding="utf-8")
ANY = re.MULTILINE | re.DOTALL
RULES, TEST = re.findall(r"^```yaml\n(.*?)^```", PAGE, ANY)
SESSIONS = re.findall(
    r"^```console\n\$ stallwatch (.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL
)
(FAILURE,) = re.findall(r"^```text\n(.*?)^```", PAGE, ANY)


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "rules.test.yaml").write_text(TEST)


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize(("command", "output"), SESSIONS, ids=[one for one, _ in SESSIONS])
def test_a_shown_command_prints_what_is_shown(
    command: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == 0
    assert capsys.readouterr().out == output


@pytest.mark.usefixtures("_files")
def test_the_failure_shown_is_what_a_wrong_label_gives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("rules.test.yaml").write_text(TEST.replace("severity: critical", "severity: warning"))
    assert main(["test", "rules.test.yaml"]) == 1
    assert capsys.readouterr().out == FAILURE


@pytest.mark.usefixtures("_files")
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_agrees_on_the_example() -> None:
    command = ["promtool", "test", "rules", "rules.test.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
