"""What a test run in the booted machine leaves behind, run here."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.kernels.outcomes import read_report
from tests.kernels.staging import ROOT

if TYPE_CHECKING:
    from pathlib import Path

TESTS = """
import os
import pytest

@pytest.fixture
def broken():
    yield
    raise RuntimeError("not given back")

def test_good():
    pass

def test_bad():
    assert 1 == 2

def test_unfit():
    pytest.skip("no nft")

def test_untidy(broken):
    pass

def test_fatal():
    os._exit(1)

def test_late():
    pass
"""


def test_each_outcome_is_kept_even_where_the_run_dies(tmp_path: Path) -> None:
    folder = tmp_path / "tests/probes/x"
    folder.mkdir(parents=True)
    (folder / "test_it.py").write_text(TESTS, encoding="utf-8")
    report = tmp_path / "report"
    environment = {"STALLWATCH_KERNEL_REPORT": str(report), "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.kernels.reporting", "--rootdir", "."],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )
    outcomes = read_report(report.read_text(encoding="utf-8"))
    assert {each.probe for each in outcomes} == {"x"}
    assert {each.test: (each.state, each.words) for each in outcomes} == {
        "test_good": ("passed", ""),
        "test_bad": ("failed", "assert 1 == 2"),
        "test_unfit": ("skipped", "no nft"),
        "test_untidy": ("failed", "RuntimeError: not given back"),
        "test_fatal": ("not finished", ""),
        "test_late": ("not finished", ""),
    }
