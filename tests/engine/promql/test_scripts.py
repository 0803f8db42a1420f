"""The script runner itself: it must notice what is wrong."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from tests.promqltest.__main__ import main
from tests.promqltest.notation import NativeHistogram, ScriptError, Stale, sequence
from tests.promqltest.runner import run_script

if TYPE_CHECKING:
    from pathlib import Path

LOAD = "load 10s\n  w{r='a'} 1 2 3\n  h {{schema:0 count:1}}x2\n\n"

WRONG = [
    ("eval instant at 10s w\n  w{r='a'} 3", 'w{r="a"} 3.0', 'w{r="a"} 2.0'),
    ("eval instant at 10s w\n  w{r='b'} 2", 'w{r="b"} 2.0', 'w{r="b"} nothing'),
    ("eval instant at 10s w", "no further series", 'w{r="a"} 2.0'),
    (
        "eval range from 0 to 20s step 10s w\n  w{r='a'} 1 _ 3",
        'w{r="a"} 1.0 _ 3.0',
        'w{r="a"} 1.0 2.0 3.0',
    ),
    ("eval instant at 10s w\n  expect fail", "an error", "a vector of 1 series"),
    ("eval instant at 10s w + on() group_left() nothing{\n", None, None),
    ("eval instant at 10s rate(w[30s])\n  expect no_info\n  {r='a'} 0.1", "no info", None),
    ("eval instant at 10s 1 + 1\n  3", "{} 3.0", "{} 2.0"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "expected", "got"), WRONG)
def test_a_wrong_result_is_a_failure(script: str, expected: str | None, got: str | None) -> None:
    tally = run_script(LOAD + script)
    (failure,) = tally.failures
    assert tally.passed == 0
    assert failure.line == 5
    assert expected is None or failure.expected == expected
    assert got is None or failure.got == got


def test_what_only_native_histograms_could_answer_is_unsupported() -> None:
    tally = run_script(LOAD + "eval instant at 10s h\n  h {{schema:0 count:1}}")
    assert (tally.passed, tally.failures, len(tally.unsupported)) == (0, [], 1)


def test_a_sequence_is_expanded() -> None:
    assert sequence("1 2+3x2 _x2 stale 5x1 0x2 -1-1x1") == [
        1, 2, 5, 8, None, None, Stale(), 5, 5, 0, 0, 0, -1, -2,
    ]  # fmt: skip
    assert sequence("{{sum:1 count:2}}") == [NativeHistogram("{{sum:1 count:2}}")]


@pytest.mark.parametrize("script", ["lod 5m\n  w 1", "load 5m\n  w 1..2", "load five\n  w 1"])
def test_a_script_that_does_not_parse_is_refused(script: str) -> None:
    with pytest.raises(ScriptError):
        run_script(script)


def test_the_report_counts_and_lists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = "eval instant at 0 1\n  1", "eval instant at 0 2\n  1"
    (tmp_path / "one.test").write_text(f"{good}\n\n{bad}\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["promqltest", str(tmp_path), "--json"])
    assert main() == 1
    report = json.loads(capsys.readouterr().out)
    assert report["total"] == {"passed": 1, "failed": 1, "unsupported": 0}
    assert report["files"]["one.test"]["failures"] == [
        {"line": 4, "expr": "2", "expected": "{} 1.0", "got": "{} 2.0"}
    ]
