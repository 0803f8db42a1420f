"""The two literal rules of the mission on data whose right answer is known to the second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from engine.labels import Labels
from engine.pipeline.replay import replay

if TYPE_CHECKING:
    from rules.model import AlertingRule
    from tests.engine.conftest import Data, Rules, RunLive

RETRANSMITS = Labels.of(__name__="tcp_retrans_total", task_id="a", rank="0")
GPU = Labels.of(__name__="gpu_utilization", task_id="a", rank="0", gpu="0")
RATIO = Labels.of(__name__="comm_wait_ratio", task_id="a", rank="0")
Values = Sequence[float | str | None]
# (active_at, fired_at, resolved_at) in seconds; None: still firing at the end.
Times = tuple[int, int, int | None]


def ramp(seconds: int, per_second: float, start: float = 0.0) -> Values:
    """A counter every ten seconds that starts at `start` and grows evenly."""
    return [start + per_second * second for second in range(0, seconds, 10)]


@dataclass(frozen=True)
class Case:
    name: str
    series: Sequence[tuple[Labels, int, Values]]
    end: int
    expected: list[Times]


# rate over 5 m at t sees (t - 300, t]: 30 samples over 290 s, extrapolated by 10 s to 300 s unless
# the counter would have been below 0 there. Growth of 1 a second from second T on, seen at T + d:
# the increase is d. A counter that was 0 at the window's start is not extrapolated before it, so
# the rate is d / 300, above 0.5 first at d = 160. One that was above 0 is: d / 290, first at 150.
# After growth has ended at E, at E + e: (290 - e) / 290, above 0.5 to e = 140.
RETRANSMIT_CASES = [
    Case(
        "crossing",
        [(RETRANSMITS, 0, [*ramp(600, 0), *ramp(1000, 1), *ramp(800, 0, start=990)])],
        2400,
        [(760, 1060, 1740)],
    ),
    Case(
        # The first burst, 600 to 840, is above 0.5 from 760 to 980: too short. The second begins
        # at 1200 with the counter at 240.
        "a dip resets the clock",
        [
            (
                RETRANSMITS,
                0,
                [
                    *ramp(600, 0),
                    *ramp(250, 1),
                    *ramp(350, 0, start=240),
                    *ramp(1000, 1, start=240),
                ],
            )
        ],
        2200,
        [(1350, 1650, None)],
    ),
    Case(
        # The last sample is at 1190. At t the window's samples cover c = 1190 - (t - 290) and rise
        # by c; extrapolation adds the 10 s at the start and, since the end is further than 1.1
        # spacings away, half a spacing there: (c + 15) / 300, above 0.5 to c = 140, t = 1340.
        "samples that stop",
        [(RETRANSMITS, 0, [*ramp(600, 0), *ramp(600, 1)])],
        1600,
        [(760, 1060, 1350)],
    ),
    Case(
        # A staleness marker is no sample of a range: the same as samples that stop.
        "a job that ends",
        [(RETRANSMITS, 0, [*ramp(600, 0), *ramp(600, 1), "stale"])],
        1600,
        [(760, 1060, 1350)],
    ),
    Case(
        # A reset to 0 at 900 loses the growth between two samples and no more.
        "a counter reset",
        [(RETRANSMITS, 0, [*ramp(600, 0), *ramp(300, 1), *ramp(300, 1)])],
        1190,
        [(760, 1060, None)],
    ),
    Case(
        # The counter starts with a 0 sample when its task is known: the first burst counts in full,
        # though there is nothing before it.
        "the first burst of a new job",
        [(RETRANSMITS, 600, ramp(1000, 1))],
        1590,
        [(760, 1060, None)],
    ),
    Case(
        # Growth from 600 to 910: above 0.5 from 760 to 1050.
        "one evaluation short of for",
        [(RETRANSMITS, 0, [*ramp(600, 0), *ramp(320, 1), *ramp(600, 0, start=310)])],
        1500,
        [],
    ),
    Case(
        # Growth from 600 to 920: above 0.5 from 760 to 1060.
        "exactly for",
        [(RETRANSMITS, 0, [*ramp(600, 0), *ramp(330, 1), *ramp(600, 0, start=320)])],
        1510,
        [(760, 1060, 1070)],
    ),
]

LOW, HIGH = 40.0, 90.0
GPU_CASES = [
    Case(
        "crossing",
        [
            (GPU, 0, [HIGH] * 30 + [LOW] * 100 + [HIGH] * 30),
            (RATIO, 0, [0.1] * 60 + [0.5] * 100),
        ],
        1590,
        [(600, 1200, 1300)],
    ),
    Case(
        "exactly the threshold is not above it",
        [(GPU, 0, [60.0] * 70 + [59.9] * 60), (RATIO, 0, [0.3] * 70 + [0.5] * 60)],
        1290,
        [],
    ),
    Case(
        "a dip resets the clock",
        [(GPU, 0, [LOW] * 50 + [HIGH] + [LOW] * 80), (RATIO, 0, [0.5] * 131)],
        1300,
        [(510, 1110, None)],
    ),
    Case(
        # An instant selector looks back five minutes, left-open: a sample of 1000 is seen
        # until 1290 and no more at 1300.
        "a gap shorter than the look-back is bridged, a longer one ends it",
        [
            (GPU, 0, [LOW] * 40 + [None] * 29 + [LOW] * 32 + [None] * 40 + [LOW]),
            (RATIO, 0, [0.5] * 142),
        ],
        1410,
        [(0, 600, 1300)],
    ),
    Case(
        "a job that ends is over at its staleness marker",
        [(GPU, 0, [LOW] * 80 + ["stale"]), (RATIO, 0, [0.5] * 80 + ["stale"])],
        900,
        [(0, 600, 800)],
    ),
    Case(
        "exactly for",
        [(GPU, 0, [LOW] * 61 + [HIGH] * 10), (RATIO, 0, [0.5] * 71)],
        700,
        [(0, 600, 610)],
    ),
    Case(
        "one evaluation short of for",
        [(GPU, 0, [LOW] * 60 + [HIGH] * 10), (RATIO, 0, [0.5] * 70)],
        690,
        [],
    ),
]


def check(rule: AlertingRule, case: Case, rules: Rules, data: Data, run_live: RunLive) -> None:
    for labels, start, values in case.series:
        data.add(labels, start, values)
    # What no flush carries still has its evaluations: live they go by the clock.
    group = rules.group(rule, interval=10)
    live = run_live([group], data, end=case.end)
    result = replay([rules.file(group)], data.dataset(), 0, case.end * 1000)
    seconds = [
        (
            alert.active_at_ms // 1000,
            (alert.fired_at_ms or 0) // 1000,
            None if alert.resolved_at_ms is None else alert.resolved_at_ms // 1000,
        )
        for alert in result.alerts
    ]
    assert seconds == case.expected
    assert list(result.alerts) == live.alerts
    assert result.evaluations == case.end // 10 + 1


@pytest.mark.parametrize("case", RETRANSMIT_CASES, ids=lambda case: case.name)
def test_tier_1_fires_and_resolves_exactly_when_it_must(
    case: Case, rules: Rules, data: Data, run_live: RunLive
) -> None:
    rule = rules.alert(
        "TcpRetransmits",
        "sum(rate(tcp_retrans_total[5m])) by (task_id) > 0.5",
        for_=300,
        labels={"tier": "1"},
        annotations={"summary": "{{ $labels.task_id }}: {{ $value }}"},
    )
    check(rule, case, rules, data, run_live)


@pytest.mark.parametrize("case", GPU_CASES, ids=lambda case: case.name)
def test_tier_2_fires_and_resolves_exactly_when_it_must(
    case: Case, rules: Rules, data: Data, run_live: RunLive
) -> None:
    rule = rules.alert(
        "GpuStalled",
        "gpu_utilization < 60 and on (task_id) comm_wait_ratio > 0.3",
        for_=600,
        labels={"tier": "2"},
    )
    check(rule, case, rules, data, run_live)


def test_two_jobs_have_two_clocks(rules: Rules, data: Data, run_live: RunLive) -> None:
    rule = rules.alert("Waiting", "comm_wait_ratio > 0.3", for_=60)
    other = RATIO.merged({"task_id": "b"})
    data.add(RATIO, 0, [0.1] * 3 + [0.5] * 20).add(other, 0, [0.1] * 5 + [0.5] * 18)
    group = rules.group(rule, interval=10)
    result = replay([rules.file(group)], data.dataset(), 0, 220_000)
    fired = {own.labels.get("task_id"): own.fired_at_ms for own in result.alerts}
    assert fired == {"a": 90_000, "b": 110_000}
    assert list(result.alerts) == run_live([group], data, end=220).alerts


def test_start_and_end_need_not_be_multiples_of_the_interval(rules: Rules, data: Data) -> None:
    rule = rules.alert("Waiting", "comm_wait_ratio > 0.3")
    data.add(RATIO, 0, [0.5] * 10)
    file = rules.file(rules.group(rule, interval=30))
    result = replay([file], data.dataset(), 5_000, 89_999)
    assert [own.active_at_ms for own in result.alerts] == [30_000]
    assert result.evaluations == 2
    assert replace(result, alerts=()).start_ms == 5_000
