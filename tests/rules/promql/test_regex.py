from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.promql.regex import PatternError, alternatives, compile_matcher


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("a|b", "b", True),
        ("a|", "", True),
        ("", "", True),
        (".*", "", True),
        (".+", "", False),
        ("a.b", "a\nb", True),
        ("a$", "a\n", False),
        ("^a$", "a", True),
        ("a|bc", "ac", False),
        ("(?i)node", "NODE", True),
        ("a(?i)b", "aB", True),
        (r"\pL+", "é", True),
        (r"[[:alpha:]]+\z", "abc", True),
        (r"\Qa.b\E", "a.b", True),
        ("(?P<n>a)(?:b)", "ab", True),
        (r"a{2}", "aa", True),
        ("é|ö", "ö", True),
    ],
)
def test_a_pattern_matches_the_whole_value_as_in_prometheus(
    pattern: str, value: str, matches: bool
) -> None:
    assert compile_matcher(pattern)(value) is matches


@pytest.mark.parametrize(
    ("pattern", "fragment"),
    [
        (r"(a)\1", r"\1"),
        ("(?=a)", "(?="),
        ("(?<!a)", "(?<!"),
        ("a++", "++"),
        ("a**", "**"),
        ("*", "*"),
        ("[", "["),
        ("a)(b", "a)(b"),
        ("a{1001}", "{1001}"),
        ("[z-a]", "z-a"),
        (r"a\C", r"\C"),
        ("(?P<n", "(?P<n"),
        (r"\8", r"\8"),
    ],
)
def test_what_re2_refuses_is_refused_with_the_part_at_fault(pattern: str, fragment: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_matcher(pattern)
    assert caught.value.fragment == fragment
    assert caught.value.hint


def test_a_literal_backslash_before_a_capital_c_is_no_any_byte() -> None:
    assert compile_matcher(r"a\\C")("a\\C")


def test_no_pattern_backtracks_without_end() -> None:
    matches = compile_matcher("(a+)+b|(a|a)*c|(.*a){20}d")
    assert not matches("a" * 50_000)


def test_a_long_list_of_values_is_a_set_to_look_up() -> None:
    listed = "|".join(f"node{i}" for i in range(1_000))
    assert alternatives(listed) == frozenset(f"node{i}" for i in range(1_000))
    assert alternatives("node1.*|node2") is None
    assert compile_matcher(f"({listed})")("node999")


@given(
    st.lists(st.text("ab", max_size=2), min_size=1, max_size=4).map("|".join),
    st.text("ab", max_size=3),
)
def test_the_shortcut_for_literals_agrees_with_a_regular_expression(
    pattern: str, value: str
) -> None:
    expected = re.fullmatch(f"(?:{pattern})", value) is not None
    assert compile_matcher(pattern)(value) is expected
    assert compile_matcher(f"(?:{pattern})")(value) is expected
