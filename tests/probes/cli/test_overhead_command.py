"""`stallwatch overhead`: what it refuses, and how."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from probes.overhead.pairs import Ratio
from probes.overhead.table import Result

ROW = ("median step, probes on / off", Ratio(1.002, 0.998, 1.006, 8))


def overhead(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "engine.cli.start", "overhead", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "overhead: no command\n    hint: stallwatch overhead -- python train.py"),
        (("--pairs", "0", "--", "true"), "not a number of pairs: '0'"),
        (("--seconds", "2", "--", "true"), "at least 5 seconds"),
        (("--limit", "no", "--", "true"), "not a ratio: 'no'; write 1.01 for 1 %"),
        (("--probes", "tcp_retransmitt", "--", "true"), "did you mean 'tcp_retransmit'?"),
    ],
)
def test_a_wrong_call_is_told_what_is_wrong(arguments: tuple[str, ...], message: str) -> None:
    status, said = overhead(*arguments)
    assert status == 2
    assert message in said
    assert "Traceback" not in said


@pytest.mark.skipif(os.geteuid() != 0, reason="a user without root gets another answer")
def test_a_command_that_does_not_exist_is_an_error() -> None:
    assert overhead("--", "/no/such/program") == (
        2,
        "overhead: cannot run /no/such/program: No such file or directory\n",
    )


def test_without_root_it_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    from probes.overhead import measurement
    from probes.overhead.errors import OverheadError

    monkeypatch.setattr("os.geteuid", lambda: 1000)
    request = measurement.Request(("true",), 1, 5.0, None, ())
    hint = r"needs root\n    hint: sudo stallwatch overhead -- true"
    with pytest.raises(OverheadError, match=hint):
        measurement.measure(request)


def test_the_table_has_the_ratio_its_interval_and_the_pairs() -> None:
    text = Result([ROW], ["machine: a machine"]).text()
    assert "median step, probes on / off  1.0020  0.9980 to 1.0060  8" in text


@pytest.mark.parametrize(("limit", "above"), [(None, False), (1.01, False), (1.005, True)])
def test_the_limit_is_for_the_upper_bound(limit: float | None, above: bool) -> None:
    assert Result([ROW]).is_above(limit) == above
    assert Result([ROW]).json()["rows"] == [
        {"what": ROW[0], "value": 1.002, "low": 0.998, "high": 1.006, "pairs": 8}
    ]
