from __future__ import annotations

import json

import pytest

from tests.kernels.outcomes import (
    BEGIN,
    END,
    Column,
    Outcome,
    column,
    into_document,
    merged,
    read_columns,
    read_report,
    table,
)

STARTS = "tests/probes/process/test_process.py::test_starts_are_counted"
KILL = "tests/probes/process/test_process.py::test_a_kill_is_told"
OWNERS = "tests/e2e/test_tcp_retransmit.py::test_owners"


def report(*said: tuple[str, str, str]) -> tuple[Outcome, ...]:
    lines = [json.dumps({"test": test, "state": state, "words": why}) for test, state, why in said]
    return read_report("\n".join(lines))


SAID = (
    (STARTS, "passed", ""),
    (KILL, "failed", "assert 1 == 2"),
    (OWNERS, "skipped", "no nft"),
)


def test_a_report_becomes_outcomes_by_probe() -> None:
    assert report(*SAID) == (
        Outcome("process", "test_starts_are_counted", "passed"),
        Outcome("process", "test_a_kill_is_told", "failed", "assert 1 == 2"),
        Outcome("tcp_retransmit", "test_owners", "skipped", "no nft"),
    )


def test_a_tests_last_word_counts_and_a_failure_stays() -> None:
    assert [
        each.state
        for each in report(
            (STARTS, "not finished", ""),
            (KILL, "not finished", ""),
            (OWNERS, "not finished", ""),
            (STARTS, "passed", ""),
            (KILL, "failed", "its teardown"),
            (KILL, "passed", ""),
        )
    ] == ["passed", "failed", "not finished"]


def test_a_file_that_cannot_be_imported_is_a_failure_of_its_probe() -> None:
    file = "tests/probes/nccl/test_waits.py"
    assert report((file, "failed", "ImportError: x")) == (
        Outcome("nccl", file, "failed", "ImportError: x"),
    )


def test_the_table_has_a_row_for_each_probe_and_says_below_what_was_not_so() -> None:
    columns = [
        column("5.10.0-46", report(*SAID)),
        column("6.1.0", report((STARTS, "passed", ""), (KILL, "not finished", ""))),
    ]
    assert table(columns).splitlines() == [
        "| probe | 5.10.0-46 | 6.1.0 |",
        "|---|---|---|",
        "| `process` | 1 of 2 | 1 of 2 |",
        "| `tcp_retransmit` | 0 of 1 | not tried |",
        "",
        "- 5.10.0-46, `process`: a kill is told: failed: assert 1 == 2",
        "- 5.10.0-46, `tcp_retransmit`: owners: skipped: no nft",
        "- 6.1.0, `process`: a kill is told: not finished",
    ]


def test_the_table_in_a_document_is_read_as_it_was_written() -> None:
    columns = [column("5.10.0-46", report(*SAID)), column("6.1.0", report((STARTS, "passed", "")))]
    text = table(columns)
    assert table(read_columns(f"before\n{BEGIN}\n{text}{END}\nafter\n")) == text
    assert read_columns(f"{BEGIN}\n{END}") == []


def test_a_run_of_one_kernel_leaves_the_other_columns_and_replaces_its_series() -> None:
    old = [Column("5.10.0-46", {"cuda": "yes"}), Column("6.1.0-50", {"cuda": "yes"})]
    new = [Column("6.1.0-57", {"nccl": "yes"})]
    for whole in (True, False):
        assert merged(old, new, whole=whole) == [old[0], *new]
    tenth, second = Column("6.10.0"), Column("6.2.0")
    assert merged([tenth], [second], whole=True) == [second, tenth]


def test_a_run_of_some_probes_replaces_their_cells_and_notes_alone() -> None:
    old = Column("6.1.0", {"cuda": "1 of 2", "nccl": "1 of 2"}, {"cuda": ["a"], "nccl": ["b"]})
    new = Column("6.1.0", {"nccl": "yes"}, {"nccl": []})
    assert merged([old], [new], whole=False) == [
        Column("6.1.0", {"cuda": "1 of 2", "nccl": "yes"}, {"cuda": ["a"], "nccl": []})
    ]
    assert merged([old], [new], whole=True) == [new]


def test_the_table_replaces_what_stood_between_the_marks() -> None:
    document = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert into_document(document, "new\n") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    with pytest.raises(ValueError, match="no line"):
        into_document("nothing", "new\n")
