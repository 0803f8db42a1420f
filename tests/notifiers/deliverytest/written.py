"""Files of delivery tests in few words: they are written, run, and what is said of them is told."""

from __future__ import annotations

import textwrap
from pathlib import Path

from engine.ruletest.reports.text import render_suite
from engine.ruletest.running import RunOptions
from notifiers.deliverytest.running import run_file

HEAD = "config: stallwatch.yaml\ndelivery_tests:\n"


def said(*tests: str, head: str = HEAD) -> str:
    """What is said of tests, each the lines of one."""
    items = [textwrap.indent(textwrap.dedent(one).strip(), "    ") for one in tests]
    Path("t.yaml").write_text(head + "\n".join(f"  -\n{one}" for one in items) + "\n")
    return render_suite(run_file("t.yaml", RunOptions()))


def passes(text: str, **settings: str) -> bool:
    found = said(text, **settings)
    assert "SUCCESS" in found, found
    return True
