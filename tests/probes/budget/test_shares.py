"""Shares of a process, and budgets shared out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.readings import Process
from probes.budget.shares import cpu_seconds, share_out, taken_from

if TYPE_CHECKING:
    from pathlib import Path


def test_an_idle_process_counts_as_a_tenth_of_a_core() -> None:
    assert taken_from(0.01, 10.0) == 1.0
    assert taken_from(None, 10.0) == 1.0


def test_a_process_of_many_threads_counts_as_one_core() -> None:
    assert taken_from(640.0, 10.0) == 10.0


def test_between_the_two_a_share_is_of_the_time_used() -> None:
    assert taken_from(4.0, 10.0) == 4.0


def write_stat(folder: Path, pid: int, start: int) -> None:
    fields = ["S", *["0"] * 10, "250", "50", *["0"] * 6, str(start), "0"]
    (folder / str(pid)).mkdir()
    (folder / str(pid) / "stat").write_text(f"{pid} (a ) name) {' '.join(fields)}\n")


def test_cpu_time_is_user_and_system_time(tmp_path: Path) -> None:
    write_stat(tmp_path, 7, 1234)
    assert cpu_seconds(Process(7, 1234), tmp_path) == 300 / os.sysconf("SC_CLK_TCK")


def test_a_reused_pid_has_no_cpu_time_of_the_old_process(tmp_path: Path) -> None:
    write_stat(tmp_path, 7, 1234)
    assert cpu_seconds(Process(7, 99), tmp_path) is None
    assert cpu_seconds(Process(8, 99), tmp_path) is None


def test_who_wants_little_gets_it_and_the_rest_is_shared() -> None:
    allowed = share_out(1.0, {"small": 0.1, "big": 2.0, "bigger": 5.0})
    assert allowed["small"] >= 0.1
    assert allowed["big"] == pytest.approx(0.45)
    assert allowed["bigger"] == pytest.approx(0.45)


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 10), min_size=1))
@settings(max_examples=50)
def test_nobody_gets_more_than_the_budget_together(wanted: dict[str, float]) -> None:
    allowed = share_out(1.0, wanted)
    taken = sum(min(allowed[name], wanted[name]) for name in wanted)
    assert taken <= 1.0 + 1e-9
    if sum(wanted.values()) <= 1:
        assert all(allowed[name] >= wanted[name] - 1e-9 for name in wanted)
