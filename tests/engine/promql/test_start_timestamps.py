"""Start timestamps tell of resets that values do not show, where that is switched on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.promql.engine import Options
from engine.promql.value import Axis

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.promql.conftest import Data

ON = Options(start_timestamps=True)
# Since 10 s, then since 25 s: the counter began anew and had overtaken its old value at 30 s.
RESTARTED = """10s
 steps_total@st _ 0s -10s -5s -15s
 steps_total _ 5 6 9 12
"""


def test_a_reset_that_only_the_start_shows_counts_when_switched_on(
    load: Callable[[str], Data],
) -> None:
    data = load(RESTARTED)
    assert data.at(40, "resets(steps_total[1m])") == {"{}": 0}
    assert data.at(40, "resets(steps_total[1m])", ON) == {"{}": 1}
    assert data.at(30, "irate(steps_total[1m])") == pytest.approx({"{}": 0.3})
    assert data.at(30, "irate(steps_total[1m])", ON) == pytest.approx({"{}": 0.9})


def test_the_window_begins_at_the_start_of_its_first_sample(load: Callable[[str], Data]) -> None:
    data = load("10s\n a_total@st _ _ -5s\n a_total _ _ 4")
    assert data.at(20, "increase(a_total[20s])") == {}
    assert data.at(20, "increase(a_total[20s])", ON) == {"{}": 4}
    # A start outside of the window tells nothing of it.
    assert data.at(20, "increase(a_total[4s])", ON) == {}


def test_series_without_starts_are_what_they_were(load: Callable[[str], Data]) -> None:
    data = load(RESTARTED + " plain_total 0 5 6 2 12\n")
    for expr in ("rate(plain_total[1m])", "resets(plain_total[1m])", "delta(steps_total[1m])"):
        assert data.at(40, expr, ON) == data.at(40, expr)


def test_a_subquery_knows_no_starts(load: Callable[[str], Data]) -> None:
    data = load(RESTARTED)
    assert data.at(40, "resets(steps_total[1m:10s])", ON) == {"{}": 0}


def test_a_start_that_overlaps_is_told_once(load: Callable[[str], Data]) -> None:
    data = load("10s\n a_total@st _ -15s -15s -15s\n a_total _ 1 2 3")
    result = data.on("rate(a_total[1m])", Axis.span(30_000, 60_000, 10_000), ON)
    (warning,) = result.warnings
    assert warning == (
        "PromQL warning: sample has start time that overlaps with previous sample timestamp for "
        'metric "a_total" (1:6)'
    )
    assert data.on("rate(a_total[1m])", Axis.instant(30_000)).warnings == ()


def test_start_timestamp_tells_since_when_a_sample_counts(load: Callable[[str], Data]) -> None:
    data = load(RESTARTED + " plain_total 1 2 3 4 5\n")
    assert data.at(40, "start_timestamp(steps_total)", ON) == {"{}": 25}
    assert data.at(40, "start_timestamp(plain_total)", ON) == {"{}": 0}
    assert data.at(40, "start_timestamp(steps_total * 1)", ON) == {}
    assert data.at(40, "start_timestamp(steps_total)") == {}


def test_an_axis_gives_what_its_instants_give(load: Callable[[str], Data]) -> None:
    data = load(RESTARTED)
    for expr in ("rate(steps_total[25s])", "increase(steps_total[1m])", "resets(steps_total[25s])"):
        points = data.points(expr, Axis.span(0, 90_000, 5_000), ON)
        for time in range(0, 91, 5):
            alone = data.at(time, expr, ON)
            assert alone == {name: row[time] for name, row in points.items() if time in row}
