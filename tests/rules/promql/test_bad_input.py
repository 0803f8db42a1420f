"""What no one should write: Prometheus' answer or one located error, however much of it."""

from __future__ import annotations

import math

import pytest

from rules.promql.ast import NumberLiteral, StringLiteral, Unary
from rules.promql.parser import parse
from rules.source import Problem, ProblemsError


def refusal(text: str) -> Problem:
    with pytest.raises(ProblemsError) as caught:
        parse(text)
    problem = caught.value.problems[0]
    assert problem.render()
    assert len(problem.render()) < 2_000
    return problem


# As Go reads them: strconv.ParseInt with base 0, else ParseFloat.
NUMBERS = {
    "0x1F": 31, "0X1f": 31, "0x_1": 1, "017": 15, "0_7": 7, "089": 89, "1_000": 1000,
    "1_000.5": 1000.5, "1e5": 1e5, "1e+5": 1e5, "1e1_0": 1e10, "1.": 1, ".5": 0.5, "1e-999": 0,
    "9223372036854775807": 2.0**63, "9223372036854775808": 2**63, "1" * 300: float("1" * 300),
    "0x7fffffffffffffff": 2.0**63, "Inf": math.inf, "iNf": math.inf, "+inf": math.inf,
    "-Inf": -math.inf, "1h30m": 5400, "1y2w3d4h5m6s7ms": 33_019_506.007, "0s": 0, "-5m": -300,
}  # fmt: skip


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_are_what_go_makes_of_them(text: str) -> None:
    expr = parse(text)
    assert isinstance(expr, NumberLiteral)
    assert expr.value == NUMBERS[text]


def test_nan_in_any_case_is_a_number_and_infinity_is_a_name() -> None:
    expr = parse("nAn")
    assert isinstance(expr, NumberLiteral)
    assert math.isnan(expr.value)
    assert not isinstance(parse("infinity"), NumberLiteral)
    assert isinstance(parse("-_1"), Unary)


NO_NUMBERS = {
    "1e999": "number 1e999 is out of range",
    "0x8000000000000000": "number 0x8000000000000000 is out of range",
    "1" * 400: "number 1111",
    "1" * 1_000_000: "number 1111",
    "0x" + "f" * 100_000: "number 0xffff",
    "1e" + "9" * 100_000: "number 1e9999",
    "0x": '"0x" is neither a number nor a duration',
    "0b11": '"0b11" is neither a number nor a duration',
    "1__0": '"1__0" starts with a digit',
    "1_": '"1_" is neither a number nor a duration',
    "1.5.2": '"1.5.2" is neither a number nor a duration',
    "1.5h": '"1.5h" is neither a number nor a duration',
    "5M": '"5M" is neither a number nor a duration',
    "1h30": '"1h30" is neither a number nor a duration',
    "1s1m": '"1s1m" is not a duration: each unit comes once, from large to small',
    "300y": "duration out of range: '300y' is above 292 years",
    "x[300y]": "duration out of range: '300y' is above 292 years",
    "x offset 1e300": "the duration is out of range",
    "x[" + "1h" * 100_000 + "]": '"1h1h',
    "1" * 100_000 + "h": "duration out of range: '1111",
    "x @ 1e300": "the timestamp is out of range",
    "x @ Inf": "the timestamp is out of range",
}


@pytest.mark.parametrize("text", NO_NUMBERS, ids=lambda text: text[:20])
def test_what_is_no_number_is_refused(text: str) -> None:
    assert refusal(text).message.startswith(NO_NUMBERS[text])


STRINGS = {
    r'"\a\b\f\n\r\t\v\\\""': '\a\b\f\n\r\t\v\\"',
    r"'\''": "'",
    r'"\x41\101\u00e9\U0001F600"': "AAé😀",
    r'"\xc3\xa9"': "é",
    r'"\xff"': "\ufffd",
    "`a\\n`": "a\\n",
    "`a\nb`": "a\nb",
    "'\"'": '"',
    '""': "",
    '"\x00"': "\x00",
    '"' + r"\n" * 100_000 + '"': "\n" * 100_000,
}


@pytest.mark.parametrize("text", STRINGS, ids=lambda text: text[:20])
def test_strings_take_the_escapes_of_go(text: str) -> None:
    expr = parse(text)
    assert isinstance(expr, StringLiteral)
    assert expr.value == STRINGS[text]


NO_STRINGS = {
    r'"\q"': r"unknown escape \q",
    r'"' + r"\'" + '"': r"unknown escape \'",
    r"'\"'": r"unknown escape \"",
    r'"\x4"': r"unknown escape \x",
    r'"\8"': r"unknown escape \8",
    r'"\400"': r"\400 is more than a byte",
    r'"\ud800"': r"\ud800 is not a Unicode character",
    r'"\U00110000"': r"\U00110000 is not a Unicode character",
    '"a\nb"': 'the string is not closed: expected "',
    '"a\\': 'the string is not closed: expected "',
    "`a": "the string is not closed: expected `",
    '"' + "a" * 1_000_000: 'the string is not closed: expected "',
}


@pytest.mark.parametrize("text", NO_STRINGS, ids=lambda text: text[:20])
def test_what_is_no_string_is_refused(text: str) -> None:
    assert refusal(text).message.startswith(NO_STRINGS[text])


CHARACTERS = {
    "\ufeffup": ("unexpected character U+FEFF", "delete this invisible character"),
    "up\u00a0== 1": ("unexpected character U+00A0", "replace it with a plain space"),
    "up\x00": ("unexpected character U+0000", ""),
    "up\x0b": ("unexpected character U+000B", ""),
    "up == 1\udc80": ("unexpected character U+DC80", ""),
    "# only a comment": ("empty expression", "write one, as in up == 0"),
    " " * 1_000_000: ("empty expression", "write one, as in up == 0"),
}


@pytest.mark.parametrize("text", CHARACTERS, ids=lambda text: ascii(text[:20]))
def test_characters_that_are_none_of_promqls_are_named(text: str) -> None:
    problem = refusal(text)
    message, hint = CHARACTERS[text]
    assert problem.message.startswith(message)
    assert problem.hint == hint


PATTERNS = {
    "(a{1000}){1000}": "invalid repetition size",
    "((a{100}){100}){100}": "invalid repetition size",
    "a{1001}": "invalid repetition size",
    "(?=a)b": "invalid perl operator",
    "(a)\\\\1": "invalid escape sequence",
    "\\\\C": "invalid escape sequence",
    "a**": "bad repetition operator",
    "*a": "no argument for repetition operator",
    "[a": "missing ]",
    "(a": "missing )",
    "\\xff": "not valid UTF-8",
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_that_re2_refuses_are_refused(pattern: str) -> None:
    problem = refusal(f'x{{a=~"{pattern}"}}')
    assert problem.message.startswith(f"invalid regular expression, {PATTERNS[pattern]}")


def test_patterns_that_would_backtrack_are_read() -> None:
    for pattern in ("(x+x+)+y", "(a*)*b", "(a|aa)+$", "|".join(f"n{i}.*" for i in range(2_000))):
        parse(f'x{{a=~"{pattern}"}}')


HUGE = {
    "label_replace(x, 'a', '" + "b" * 1_000_000 + "', 'c', 'd')": "",
    'x{a=~"' + "ab|" * 300_000 + 'c"}': "",
    "#" + "a" * 1_000_000 + "\nx": "",
    "a" * 1_000_000: "",
    "x" + " or x{a='bbbbbbbbbbbbbbbbbbbbbbb'}" * 9_000: "",
    "sum by (" + ",".join(f"l{i}" for i in range(20_000)) + ") (x)": "",
    "x{" + ",".join(f'a{i}="b"' for i in range(20_000)) + "}": "",
    "x " + "! " * 500_000: 'unexpected "!"',
    "(" * 200_000: "brackets are nested more than 2,000 levels deep",
    "a.b" * 300_000: 'unexpected "."',
    "foo(x)+" * 20_000 + "1": 'unknown function "foo"',
    "foooo" * 200_000 + "(x)": 'unknown function "foooo',
}


@pytest.mark.parametrize("text", HUGE, ids=lambda text: text[:20])
def test_a_megabyte_is_read_or_refused_at_its_place(text: str) -> None:
    if HUGE[text]:
        assert refusal(text).message.startswith(HUGE[text])
    else:
        parse(text)
