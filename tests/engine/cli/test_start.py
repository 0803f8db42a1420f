"""stallwatch starts only among its own packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from engine.cli.start import PACKAGES, locate, misplaced

ROOT = Path(__file__).resolve().parents[3]
TOGETHER: dict[str, str | None] = {name: f"/opt/stallwatch/{name}" for name in PACKAGES}
HINT = (
    "\n    hint: install stallwatch into a virtual environment of its own, and start it without"
    " PYTHONPATH"
)


def test_packages_side_by_side_are_ours() -> None:
    assert misplaced(TOGETHER) == ""
    assert misplaced({name: locate(name) for name in PACKAGES}) == ""


def test_a_package_of_somebody_else_is_named_with_its_place() -> None:
    strange = {**TOGETHER, "rules": "/usr/lib/python3/dist-packages/rules"}
    assert misplaced(strange) == (
        "stallwatch: the package 'rules' comes from /usr/lib/python3/dist-packages/rules:"
        " it belongs beside 'engine' in /opt/stallwatch" + HINT
    )


def test_a_package_that_is_gone_is_named() -> None:
    assert misplaced({**TOGETHER, "notifiers": None}) == (
        "stallwatch: the package 'notifiers' is missing: it belongs beside 'engine' in"
        " /opt/stallwatch" + HINT
    )


def test_the_command_ends_before_it_imports_another_package_called_rules(tmp_path: Path) -> None:
    stranger = tmp_path / "rules"
    stranger.mkdir()
    (stranger / "__init__.py").write_text("raise SystemExit('imported')\n")
    start = f"import sys; sys.path.append({str(ROOT)!r}); from engine.cli.start import main"
    done = subprocess.run(
        [sys.executable, "-c", f"{start}; sys.exit(main())", "version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"stallwatch: the package 'rules' comes from {stranger}: ")
    assert len(done.stderr.splitlines()) == 2


def test_an_interrupt_during_the_imports_is_silent(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(
        "import builtins, sys\n"
        "from engine.cli import start\n"
        "real = builtins.__import__\n"
        "def stop(name, *args):\n"
        "    if name == 'engine.cli.main':\n"
        "        raise KeyboardInterrupt\n"
        "    return real(name, *args)\n"
        "builtins.__import__ = stop\n"
        "sys.exit(start.main())\n"
    )
    done = subprocess.run(
        [sys.executable, "interrupted.py", "version"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "")
