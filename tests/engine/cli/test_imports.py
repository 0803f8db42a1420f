"""What a command needs not is not imported: each of these costs more than all that it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# Never for these commands; the first five cost a tenth of a second and more.
HEAVY = ("numpy", "pandas", "pyarrow", "pydantic", "scipy", "rich", "requests", "bcc", "jinja2")
SLOW = (*HEAVY, "importlib.metadata", "dataclasses", "inspect", "json", "shutil", "difflib")
PLAIN = """
groups:
  - name: plain
    rules:
      - record: job:up:sum
        expr: sum by (job) (up{job=~"a|b"})
      - alert: Down
        expr: job:up:sum < 1
"""
WITH_LABEL = f"{PLAIN}        annotations: {{summary: 'of {{{{ $labels.job }}}}'}}\n"
WITH_TEMPLATE = WITH_LABEL.replace("$labels.job", "len $labels.job")
WITH_PATTERN = PLAIN.replace("a|b", "a.*")


def imported(*args: str) -> set[str]:
    """The modules that a command has imported when it is done."""
    code = (
        "import sys\nfrom engine.cli import start\n"
        "start._leave = lambda status: print('\\n'.join(sys.modules))\n"
        f"sys.argv = ['stallwatch', *{args!r}]\nstart.main()\n"
    )
    # -S: what `site` and the .pth files of an environment import is not ours.
    paths = f"import sys\nsys.path[:] = {[str(ROOT), *sys.path]!r}\n"
    run = [sys.executable, "-S", "-c", paths + code]
    return set(subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())


@pytest.fixture
def check(tmp_path: Path) -> set[str]:
    """What is imported for a rule file without templates and patterns."""
    path = tmp_path / "plain.yaml"
    path.write_text(PLAIN)
    return imported("check", str(path))


def test_version_imports_nothing_slow() -> None:
    loaded = imported("version")
    assert loaded.isdisjoint({*SLOW, "yaml", "re2", "pathlib", "platform"})
    assert "engine.cli.version" in loaded


def test_check_imports_nothing_slow(check: set[str]) -> None:
    assert check.isdisjoint({*SLOW, "re2", "glob", "decimal", "asyncio", "socket"})
    assert "rules.promql.parser" in check


def test_check_imports_what_only_some_files_need_for_those(check: set[str], tmp_path: Path) -> None:
    label, template = tmp_path / "label.yaml", tmp_path / "template.yaml"
    pattern = tmp_path / "pattern.yaml"
    label.write_text(WITH_LABEL)
    template.write_text(WITH_TEMPLATE)
    pattern.write_text(WITH_PATTERN)
    for loaded in (check, imported("check", str(label))):
        assert loaded.isdisjoint({"rules.templates.parser", "rules.templates.tree"})
    assert "rules.templates.parser" in imported("check", str(template))
    assert "re2" in imported("check", str(pattern))


def test_only_a_configuration_with_jinja_loads_it(tmp_path: Path) -> None:
    path = tmp_path / "stallwatch.yaml"
    receiver = "receivers: [{name: a, apprise_configs: [{url: 'json://h', text: TEXT}]}]\n"
    path.write_text(receiver.replace("TEXT", "'{{ .Status }}'"))
    assert "jinja2" not in imported("check", str(path))
    path.write_text(receiver.replace("TEXT", "{jinja: '{{ status }}'}"))
    assert "jinja2" in imported("check", str(path))
