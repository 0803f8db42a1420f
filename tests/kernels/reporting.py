"""A pytest plugin for the booted machine: what a test came to is written as soon as it is known.

A machine that hangs or runs out of time has said what it found until then, and the tests that are
named without an outcome are those that it left out (outcomes.py reads it).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

REPORT = Path(os.environ.get("STALLWATCH_KERNEL_REPORT", os.devnull))


def pytest_collection_finish(session: pytest.Session) -> None:
    for item in session.items:
        _write(item.nodeid, "not finished", "")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _write(report.nodeid, "failed", str(report.longrepr).splitlines()[-1])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _write(report.nodeid, "failed", _crash(report))
    elif isinstance(report.longrepr, tuple):
        _write(report.nodeid, "skipped", report.longrepr[2].removeprefix("Skipped: "))
    elif report.when == "call":
        _write(report.nodeid, "passed", "")


def _crash(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    words = crash.message if crash else str(report.longrepr)
    return str(words).split("\n")[0]


def _write(test: str, state: str, words: str) -> None:
    with REPORT.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"test": test, "state": state, "words": words}) + "\n")
