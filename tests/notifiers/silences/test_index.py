"""The index against asking every silence about every alert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.alerts.matchers import Matcher
from engine.labels import Labels
from notifiers.silences.index import SilenceIndex
from notifiers.silences.silence import Silence

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["", "x", "y", "xy"])
EXPRESSIONS = st.sampled_from(
    ["x|y", "x|", "x.*", ".*", ".+", "(?i)X", "(?P<g>x)y?", "\\Qx", "\\Q)", "[xy]+", "a|b.*"]
)
MATCHERS = st.one_of(
    st.builds(Matcher, NAMES, st.sampled_from(["=", "!="]), VALUES),
    st.builds(Matcher, NAMES, st.sampled_from(["=~", "!~"]), EXPRESSIONS),
)
TIMES = st.integers(0, 6)
LABELS = st.dictionaries(NAMES, VALUES)


@st.composite
def silences(draw: st.DrawFn) -> list[Silence]:
    drawn = draw(st.lists(st.tuples(st.lists(MATCHERS, max_size=3), TIMES, TIMES), max_size=12))
    return [
        Silence(f"{number:02}", tuple(matchers), min(times), max(times))
        for number, (matchers, *times) in enumerate(drawn)
    ]


def slowly(all_of_them: Sequence[Silence], labels: dict[str, str], now_ms: int) -> tuple[str, ...]:
    found = (
        one.id
        for one in all_of_them
        if one.starts_at_ms <= now_ms < one.ends_at_ms
        and one.matchers
        and all(matcher.matches(labels) for matcher in one.matchers)
    )
    return tuple(sorted(found))


@settings(max_examples=300, deadline=None)
@given(silences(), st.lists(st.tuples(LABELS, TIMES), max_size=12))
def test_it_finds_what_a_look_at_every_silence_finds(
    all_of_them: list[Silence], asked: list[tuple[dict[str, str], int]]
) -> None:
    index = SilenceIndex(reversed(all_of_them))
    for labels, now_ms in asked:
        expected = slowly(all_of_them, labels, now_ms)
        assert index.silencing(labels, now_ms) == expected
        assert index.silencing(Labels(labels), now_ms) == expected


def test_only_the_silences_of_an_alerts_own_labels_are_asked(support: Any) -> None:
    asked = []

    class Counting(Matcher):
        def matches(self, labels: Any) -> bool:
            asked.append(self.value)
            return super().matches(labels)

    every = [
        Silence(str(rank), (Counting("job", "=", "a"), Counting("rank", "=", str(rank))), 0, 9)
        for rank in range(1000)
    ]
    index = SilenceIndex(every)
    labels = Labels.of(job="a", rank="7")
    assert index.silencing(labels, 5) == ("7",)
    assert index.silencing(labels, 5) == ("7",)
    assert asked == ["a", "7"]


def test_expressions_are_asked_about_a_value_and_not_about_an_alert(support: Any) -> None:
    asked = []

    class Counting(Matcher):
        def matches(self, labels: Any) -> bool:
            asked.append(labels.get("node"))
            return super().matches(labels)

    every = [
        Silence(str(rank), (Counting("node", "=~", f"gpu-{rank}[0-9]?"),), 0, 9)
        for rank in range(100, 400)
    ]
    index = SilenceIndex(every)
    asked.clear()
    for rank in range(50):
        labels = {"node": "gpu-777", "rank": str(rank)}
        assert index.silencing(labels, 5) == ()
    assert asked == []
    assert index.silencing({"node": "gpu-123"}, 5) == ("123",)
    assert len(asked) < 100


def test_what_is_remembered_is_bounded(monkeypatch: Any, support: Any) -> None:
    monkeypatch.setattr("notifiers.silences.index.REMEMBERED", 10)
    monkeypatch.setattr("notifiers.silences.gates.REMEMBERED", 20)
    index = SilenceIndex([support.silence('rank=~"[0-9]+"', identity="a")])
    for rank in range(100):
        assert index.silencing({"rank": str(rank)}, support.now_ms) == ("a",)
    assert len(index._matching) <= 10
    assert len(index._gates._open) <= 20
