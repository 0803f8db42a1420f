from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.alerts.matchers import (
    Matcher,
    MatcherError,
    all_match,
    ordered,
    parse_matchers,
    spelled,
)
from engine.labels import Labels

CASES = Path(__file__).parent / "cases" / "matchers.txt"


def _cases() -> list[tuple[str, str]]:
    lines = [line for line in CASES.read_text().splitlines() if line and not line.startswith("#")]
    return list(zip(lines[::2], (line.strip() for line in lines[1::2]), strict=True))


def _read(text: str) -> str:
    try:
        return spelled(parse_matchers(text))
    except MatcherError as error:
        place = "end" if error.start == len(text) else text[error.start : error.end]
        return f"refused at <{place}>: {error.message}" + (f"; {error.hint}" if error.hint else "")


@pytest.mark.parametrize(("text", "expected"), _cases())
def test_a_text_is_read_as_alertmanager_reads_it(text: str, expected: str) -> None:
    assert _read(text.replace("␤", "\n").replace("∅", "")) == expected.replace("␤", "\n")


def test_an_error_tells_the_text_the_place_and_the_mend() -> None:
    with pytest.raises(MatcherError) as caught:
        parse_matchers('{severity="critical')
    assert str(caught.value) == (
        "bad matcher '{severity=\"critical', character 11: a quote that nothing closes; add a \""
    )


@pytest.mark.parametrize(
    ("matcher", "held_by", "not_by"),
    [
        ("a=b", ["b"], ["", "bb"]),
        ("a!=b", ["", "c"], ["b"]),
        ("a=~b|c", ["b", "c"], ["", "bc"]),
        ("a=~b.*", ["b", "bcd"], ["ab", "b\nc"]),
        ('a=~""', [""], ["b"]),
        ("a!~b.*", ["", "ab"], ["b", "bcd"]),
        ('a=~"(?s)b.*"', ["b\nc"], [""]),
    ],
)
def test_an_absent_label_is_empty_and_an_expression_matches_all_of_the_value(
    matcher: str, held_by: list[str], not_by: list[str]
) -> None:
    (parsed,) = parse_matchers(matcher)
    for value in (*held_by, *not_by):
        expected = value in held_by
        assert parsed.matches({"a": value, "b": "x"}) is expected
        assert parsed.matches(Labels.of(a=value)) is expected
    assert parsed.matches({}) is ("" in held_by)


def test_all_of_a_list_have_to_hold() -> None:
    matchers = parse_matchers("a=1, b!=2")
    assert all_match(matchers, {"a": "1"})
    assert not all_match(matchers, {"a": "1", "b": "2"})
    assert all_match((), {})


def test_matchers_are_values() -> None:
    one, other = Matcher("a", "=~", "b.*"), Matcher("a", "=~", "b.*")
    assert one == other
    assert len({one, other}) == 1
    assert repr(one) == "Matcher(label='a', op='=~', value='b.*')"
    assert ordered(parse_matchers("b=1,a!=2,a=2,a=1")) == parse_matchers("a=1,a=2,a!=2,b=1")


def test_any_matcher_is_read_back_from_its_spelling() -> None:
    chance = random.Random(4)
    for _ in range(3000):
        label = "".join(chance.choices('ab_ "\\{}=,~!\n🙂é\t`', k=chance.randint(1, 5)))
        value = "".join(chance.choices('ab_ "\\{}=,~!\n🙂é\t`', k=chance.randint(0, 5)))
        matcher = Matcher(label, chance.choice(("=", "!=")), value)
        assert parse_matchers(str(matcher)) == (matcher,), str(matcher)
