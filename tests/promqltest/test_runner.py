"""The runner itself: it must notice what is wrong, and say where."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.promql.engine import evaluate
from tests.promqltest.notation import NativeHistogram, ScriptError, Stale, sequence, starts
from tests.promqltest.runner import run_script

ROOT = Path(__file__).parents[2]
LOAD = "load 10s\n  w{r='a'} 1 2 3\n  h {{schema:0 count:1}}x2\n\n"

WRONG = [
    ("eval instant at 10s w\n  w{r='a'} 3", 'w{r="a"} 3.0', 'w{r="a"} 2.0'),
    ("eval instant at 10s w\n  w{r='b'} 2", 'w{r="b"} 2.0', 'w{r="b"} nothing'),
    ("eval instant at 10s w", "no further series", 'w{r="a"} 2.0'),
    ("eval instant at 10s w\n  2", "a scalar 2.0", 'a vector, w{r="a"} 2.0'),
    ("eval instant at 10s w\n  expect string 'w'", "'w'", 'a vector, w{r="a"} 2.0'),
    (
        "eval range from 0 to 20s step 10s w\n  w{r='a'} 1 _ 3",
        'w{r="a"} 1.0 _ 3.0',
        'w{r="a"} 1.0 2.0 3.0',
    ),
    ("eval instant at 10s w\n  expect fail", "an error", 'a vector, w{r="a"} 2.0'),
    ("eval instant at 10s w + on() group_left() nothing{\n", None, None),
    ("eval instant at 10s rate(w[30s])\n  expect no_info\n  {r='a'} 0.1", "no info", None),
    ("eval instant at 10s w\n  expect warn\n  w{r='a'} 2", "warn ''", "warn: []"),
    ("eval instant at 10s 1 + 1\n  3", "{} 3.0", "{} 2.0"),
    ("eval instant at 10s 1 + 1\n  {} 2", "a vector, {} 2.0", "a scalar 2.0"),
    ("eval instant at 10s 'a'\n  expect string 'b'", "'b'", "the string 'a'"),
    (
        "eval instant at 20s w[20s]\n  expect range vector from 10s to 20s step 10s\n  w{r='a'} 2",
        'w{r="a"} 2.0',
        'w{r="a"} 2.0 3.0',
    ),
    (
        "eval instant at 10s sort(w or vector(9))\n  expect ordered\n  {} 9\n  w{r='a'} 2",
        '{}, w{r="a"}',
        'w{r="a"}, {}',
    ),
    ("eval_fail instant at 10s w * on() group_left w or w\n  expected_fail_message no", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("script", "expected", "got"), WRONG)
def test_a_wrong_result_is_a_failure(script: str, expected: str | None, got: str | None) -> None:
    tally = run_script(LOAD + script)
    (failure,) = tally.failures
    assert tally.passed == 0
    assert failure.line == 5
    assert expected is None or failure.expected == expected
    assert got is None or failure.got == got


def test_a_result_that_is_a_native_histogram_is_unsupported() -> None:
    tally = run_script(LOAD + "eval instant at 10s h\n  h {{schema:0 count:1}}")
    assert (tally.passed, tally.failures, len(tally.unsupported)) == (0, [], 1)


SEQUENCES = [
    (
        "1 2+3x2 _x2 stale 5x1 0x2 -1-1x1",
        [1, 2, 5, 8, None, None, Stale(), 5, 5, 0, 0, 0, -1, -2],
    ),
    ("+1 1e3 .5 Inf -inf 1-0.5x2", [1, 1000, 0.5, float("inf"), -float("inf"), 1, 0.5, 0]),
    ("_ _x1 0x5", [None, None, 0, 0, 0, 0, 0, 0]),
    ("{{sum:1 count:2}}", [NativeHistogram("{{count:2 sum:1}}")]),
    ("{{ }}x1", [NativeHistogram("{{}}")] * 2),
    (
        "{{schema:0 count:1 buckets:[1]}}+{{count:2 buckets:[1 1]}}x1",
        [
            NativeHistogram("{{schema:0 count:1 buckets:[1]}}"),
            NativeHistogram("{{schema:0 count:3 buckets:[2 1]}}"),
        ],
    ),
    (
        "{{offset:1 buckets:[4] counter_reset_hint:gauge}}-{{buckets:[1]}}x1",
        [
            NativeHistogram("{{offset:1 buckets:[4] counter_reset_hint:gauge}}"),
            NativeHistogram("{{offset:0 buckets:[-1 4] counter_reset_hint:gauge}}"),
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "items"), SEQUENCES)
def test_a_sequence_is_expanded(text: str, items: list[object]) -> None:
    assert sequence(text) == items


def test_start_times_are_expanded() -> None:
    assert starts("_ _x2 -1m 0 +5sx1 -30s-1mx2 * *x1 1ms--1msx1") == [
        None, None, None, -60_000, 0, 5000, 5000, -30_000, -90_000, -150_000,
        -150_000, -150_000, -150_000, 1, 2,
    ]  # fmt: skip


BROKEN = [
    ("lod 5m\n  w 1", 1, "not a command: 'lod 5m'"),
    ("\n# w\nload five\n  w 1", 3, "not a valid duration: 'five'"),
    ("load 5m\n  w 1\n  w{a=} 1", 3, "unreadable labels in 'w{a=} 1', at 'a=} 1'"),
    ("load 5m\n  w 1..2", 2, "not a value: '1..2'"),
    ("load 5m\n  w 1+2", 2, "not a value: '1+2'"),
    ("load 5m\n  w 1x9999999", 2, "a repeat of 9999999 is above 1000000"),
    ("load 5m\n  w {{shape:1}}", 2, "unknown field 'shape' in the histogram {{shape:1}}"),
    ("load 5m\n  w {{sum:1 sum:2}}", 2, "the field 'sum' comes twice"),
    ("load 5m\n  w {{buckets:2}}", 2, "wrong value of 'buckets'"),
    ("load 5m\n  w {{schema:0.5}}", 2, "wrong value of 'schema'"),
    ("load 5m\n  w {{counter_reset_hint:maybe}}", 2, "wrong value of 'counter_reset_hint'"),
    ("load 5m\n  w@st 1m\n", 2, "no samples follow the '@st' line"),
    ("load 5m\n  w@st 1m\n  w 1 2", 2, "1 start times for 2 samples"),
    ("load 5m\n  w@st 1m\n  v 1", 2, "of another series"),
    ("load 5m\n  w@st 1\n  w 1", 2, "not a valid duration: '1'"),
    ("eval instant at 0\n", 1, "not a command"),
    ("eval instant at -5m w\n", 1, "not a valid duration: '-5m'"),
    ("eval instant at 5 w\n", 1, "the unit is missing"),
    ("eval range from 5m to 1m step 1m w", 1, "the end is before the start"),
    ("eval range from 0 to 1m step 0s w", 1, "the step is 0"),
    ("eval range from 0 to 100y step 1ms w", 1, "more than 1000000 steps"),
    ("load 5m\n  w 1\neval instant at 0 w", 3, "an empty line ends what is loaded"),
    ("eval instant at 0 w\n  expect nothing", 2, "unreadable 'expect nothing'"),
    ("eval instant at 0 w\n  expect fail regex: (", 2, "not a regular expression: ("),
    ("eval instant at 0 w\n  expect warn\n  expect no_warn", 3, "contradict each other"),
    ("eval instant at 0 w\n  expect fail msg: a\n  expect fail msg: b", 3, "comes twice"),
    ("eval instant at 0 'w'\n  expect string w", 2, "not a string in quotes: w"),
    ("eval instant at 0 1\n  1\n  {} 2", 3, "a line after the number"),
    ("eval instant at 0 w\n  w 1 2", 2, "'expect range vector' allows them"),
    ("eval instant at 0 w\n  expect range vector from 0 to 1m", 2, "wanted 'expect range vector"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "line", "reason"), BROKEN)
def test_a_broken_script_is_refused_at_its_line(script: str, line: int, reason: str) -> None:
    with pytest.raises(ScriptError) as caught:
        run_script(script)
    assert caught.value.line == line
    assert reason in caught.value.reason


def _main(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.promqltest", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_report_counts_and_lists(tmp_path: Path) -> None:
    good, bad = "eval instant at 0 1\n  1", "eval instant at 0 2\n  1"
    (tmp_path / "one.test").write_text(f"{good}\n\n{bad}\n", encoding="utf-8")
    (tmp_path / "broken.test").write_text("\nload\n", encoding="utf-8")
    (tmp_path / "binary.test").write_bytes(b"\xff\xfe")
    done = _main(tmp_path, "--json")
    assert (done.returncode, done.stderr) == (1, "")
    report = json.loads(done.stdout)
    assert report["total"] == {"passed": 1, "failed": 3, "unsupported": 0}
    assert report["files"]["one.test"] == {
        "passed": 1,
        "failed": 1,
        "unsupported": 0,
        "failures": [
            {"line": 4, "expr": "2", "expected": "{} 1.0", "got": "{} 2.0"},
        ],
    }
    done = _main(tmp_path, "--modes")
    assert "broken.test:2: not a command: 'load'" in done.stdout
    assert "binary.test: the file is not UTF-8 text" in done.stdout
    assert "left out 1: an instant case is a single step" in done.stdout


def test_a_folder_that_is_missing_or_empty_is_one_line_and_an_exit_of_2(tmp_path: Path) -> None:
    done = _main(tmp_path / "no")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{tmp_path / 'no'}: no such folder\n"
    done = _main(tmp_path)
    assert (done.returncode, done.stderr) == (2, f"{tmp_path}: no *.test files in it\n")


def test_a_mode_that_gives_other_bits_fails_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.promqltest import data

    flushes = data.Data._flushes

    def off(self: data.Data) -> object:
        for flush in flushes(self):
            flush.values[:] += 1e-9
            yield flush

    monkeypatch.setattr(data.Data, "_flushes", off)
    (failure,) = run_script(LOAD + "eval instant at 10s w\n  w{r='a'} 2").failures
    assert failure.got == 'w{r="a"} 2.000000001@10s (live mode)'


def test_a_fault_of_the_engine_is_a_failure_and_the_next_case_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(tree: object, *rest: object) -> object:
        if type(tree).__name__ == "Binary":
            raise ZeroDivisionError("by hand")
        return evaluate(tree, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("tests.promqltest.modes.evaluate", broken)
    tally = run_script("eval instant at 0 1 + 1\n  2\n\neval instant at 0 2\n  2")
    (failure,) = tally.failures
    assert failure.got.startswith("internal error: ZeroDivisionError: by hand")
    assert tally.passed == 1
