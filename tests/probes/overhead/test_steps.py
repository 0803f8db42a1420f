"""Where steps are told."""

from __future__ import annotations

import io
import struct
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from probes.overhead.steps import StepFiles, StepLines, read_times

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("data", "times"),
    [
        (b"", []),
        (b"1.5\n2.5\n", [1.5, 2.5]),
        (b"1.5\n2.5\n3.", [1.5, 2.5]),  # being written
        (struct.pack("=2d", 1.5, 2.5), [1.5, 2.5]),
        (struct.pack("=2d", 1.5, 2.5)[:-3], [1.5]),
    ],
)
def test_a_step_file_holds_lines_or_doubles(data: bytes, times: list[float]) -> None:
    assert read_times(data).tolist() == times


def test_unix_times_are_told_from_monotonic_ones(tmp_path: Path) -> None:
    first, second, absent = (tmp_path / name for name in ("a", "b", "c"))
    first.write_text(f"{time.time()}\n")
    second.write_text(f"{time.monotonic()}\n")
    one, two, none = StepFiles((first, second, absent)).ends()
    assert abs(one[0] - two[0]) < 5
    assert len(none) == 0


def test_lines_that_match_end_a_step_and_all_lines_go_on() -> None:
    onward = io.StringIO()
    steps = StepLines(io.StringIO("loading\nstep 1\nstep 2\ndone\n"), r"^step \d", onward)
    steps.close()
    (ends,) = steps.ends()
    assert len(ends) == 2
    assert np.all(np.diff(ends) >= 0)
    assert onward.getvalue() == "loading\nstep 1\nstep 2\ndone\n"
