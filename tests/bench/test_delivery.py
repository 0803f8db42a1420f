"""How differences from Alertmanager are told apart: without one, on sequences by hand."""

from __future__ import annotations

import pytest

from bench.delivery.comparison import Terms, compare
from bench.delivery.hook import Told
from bench.delivery.timeline import AFTER, BEFORE, ON, Timeline, timeline

KEY = ("ops", "{}:{}")


def told(*lines: str) -> dict[tuple[str, str], list[Told]]:
    """`4 +a -b`: at tick 4 `a` is said to fire and `b` to be over."""
    found = []
    for line in lines:
        tick, *alerts = line.split()
        firing, resolved = (
            frozenset(each[1:] for each in alerts if each[0] == sign) for sign in "+-"
        )
        found.append(Told(int(tick) * 3 + 1, firing, resolved))
    return {KEY: found}


def whys(peer: list[str], ours: list[str], *, keeps_owed: bool = True, **ends: float) -> list[str]:
    """The classes of differences; `ends`: at which tick, such as `a=3.5`."""
    terms = Terms(
        {name: [tick * 3 + 1] for name, tick in ends.items()}, {"ops": 16}, keeps_owed=keeps_owed
    )
    return [one.why for one in compare(told(*peer), told(*ours), terms).differences]


def test_the_same_at_other_times_is_the_same() -> None:
    assert whys(["1 +a", "2 -a"], ["1 +a", "3 -a"]) == []


def test_an_end_that_was_muted_is_told_later_here_unless_it_is_compatible() -> None:
    peer, ours = ["1 +a"], ["1 +a", "5 -a"]
    assert whys(peer, ours, a=1.5) == ["end was muted"]
    assert whys(peer, ours, a=1.5, keeps_owed=False) == ["unexplained"]
    # It ended just before that tick: then Alertmanager should have told it.
    assert whys(peer, ours, a=4.5) == ["unexplained"]
    # Told of it again, Alertmanager's receiver knows no end: no news there.
    assert whys(peer, [*ours, "6 +a"], a=1.5) == ["end was muted", "follows"]


def test_an_end_of_what_nobody_was_told_of_is_alertmanagers_alone() -> None:
    assert whys(["1 +a", "2 +a -b"], ["1 +a"], b=1.5) == ["never told"]
    assert whys(["1 +a", "2 +a +c -b"], ["1 +a", "2 +a +c"], b=1.5) == ["never told"]
    assert whys(["1 +a +b", "2 +a -b"], ["1 +a +b"], b=1.5) == ["unexplained"]


def test_a_repeat_moves_with_the_message_before_it() -> None:
    peer, ours = ["1 +a", "4 +a -b", "10 +a"], ["1 +a", "7 +a"]
    assert whys(peer, ours, b=3.5) == ["never told", "follows", "follows"]
    # Without one that moved it, or too early, it has no reason.
    assert whys(["1 +a"], ["1 +a", "7 +a"]) == ["unexplained"]
    assert whys(["1 +a"], ["1 +a", "6 +a"]) == ["unexplained"]


@pytest.mark.parametrize(
    ("peer", "ours"),
    [
        (["1 +a"], []),
        ([], ["1 +a"]),
        (["1 +a +b"], ["1 +a"]),
        (["1 +a", "2 -a"], ["1 +a"]),
        (["1 +a"], ["1 +a", "2 -b"]),
        (["1 +a", "2 +a +b"], ["1 +a"]),
        (["1 +a"], ["1 +a", "1 -a"]),
    ],
)
def test_what_is_lost_or_made_up_has_no_explanation(peer: list[str], ours: list[str]) -> None:
    assert "unexplained" in whys(peer, ours)


@pytest.fixture(scope="module")
def drawn() -> Timeline:
    return timeline(3, 600)


def test_a_timeline_is_the_same_for_the_same_seed(drawn: Timeline) -> None:
    assert timeline(3, 600) == drawn
    assert timeline(4, 600) != drawn


def test_nothing_happens_near_a_tick_but_alerts_with_groups_of_their_own(drawn: Timeline) -> None:
    for step in drawn.steps:
        within = step.at % 3
        assert step.old or any(within == pytest.approx(each % 3) for each in (BEFORE, ON, AFTER))
        assert not step.fire or within == ON
        assert not step.old or within == 1
        for silence in step.silence:
            for time in (silence.starts, silence.ends):
                assert any(time % 3 == pytest.approx(each % 3) for each in (BEFORE, ON))


def test_what_fires_resolves_once_and_all_is_over_at_the_end(drawn: Timeline) -> None:
    firing: set[int] = set()
    for step in drawn.steps:
        assert firing.issuperset(step.resolve)
        firing.difference_update(step.resolve)
        assert firing.isdisjoint((*step.fire, *step.old))
        firing.update((*step.fire, *step.old))
    assert not firing
    assert sum(len(step.fire) for step in drawn.steps) > 100
