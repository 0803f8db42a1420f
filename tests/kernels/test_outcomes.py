from __future__ import annotations

import pytest

from tests.kernels.outcomes import BEGIN, END, Outcome, into_document, read_report, table

REPORT = """<testsuites><testsuite>
<testcase file="tests/probes/process/test_process.py" name="test_starts_are_counted"/>
<testcase file="tests/probes/process/test_process.py" name="test_a_kill_is_told">
  <failure message="assert 1 == 2&#10;more">...</failure></testcase>
<testcase file="tests/e2e/test_tcp_retransmit.py" name="test_owners">
  <skipped message="no nft">...</skipped></testcase>
</testsuite></testsuites>"""


def test_a_report_becomes_outcomes_by_probe() -> None:
    assert read_report(REPORT) == (
        Outcome("process", "test_starts_are_counted", "passed"),
        Outcome("process", "test_a_kill_is_told", "failed", "assert 1 == 2"),
        Outcome("tcp_retransmit", "test_owners", "skipped", "no nft"),
    )


def test_the_table_has_a_row_for_each_probe_and_says_below_what_was_not_so() -> None:
    runs = {
        "5.10.0-46": read_report(REPORT),
        "6.1.0": (Outcome("process", "test_starts_are_counted", "passed"),),
    }
    assert table(runs).splitlines() == [
        "| probe | 5.10.0-46 | 6.1.0 |",
        "|---|---|---|",
        "| `process` | 1 of 2 | yes (1 test) |",
        "| `tcp_retransmit` | 0 of 1 | not tried |",
        "",
        "- 5.10.0-46, `process`: a kill is told: failed: assert 1 == 2",
        "- 5.10.0-46, `tcp_retransmit`: owners: skipped: no nft",
    ]


def test_the_table_replaces_what_stood_between_the_marks() -> None:
    document = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert into_document(document, "new\n") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    with pytest.raises(ValueError, match="no line"):
        into_document("nothing", "new\n")
