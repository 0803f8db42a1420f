"""The notations inside a unit-test file: a metric's name with its labels, a sequence of values.

The grammar is that of Prometheus' series descriptions (promql/parser/generated_parser.y,
`series_description`): numbers have no hexadecimal form there, since `0x5` is six zeros.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from engine.native_histogram import Histogram, HistogramError, expanded
from engine.series import STALE_NAN
from rules.promql.cursor import Cursor
from rules.promql.lexer import number_value, tokenize
from rules.promql.selectors import read_selector
from rules.promql.tokens import Kind
from rules.slotted import dataclass
from rules.source import Problem, ProblemsError, Source, Span

if TYPE_CHECKING:
    from engine.series import BoolArray, Float64Array

# A year at five seconds is 6 million; above this a count is a typing error.
MOST_SAMPLES = 10_000_000
MOST_HISTOGRAMS = 100_000

_UNSIGNED = (
    r"(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![A-Za-wyz0-9_.:])"
    r"|(?:[iI][nN][fF]|[nN][aA][nN])(?![A-Za-z0-9_.:]))"
)
_HISTOGRAM = r"\{\{.*?\}\}"
_ITEM = re.compile(
    rf"(?P<gap>_)(?:x(?P<gaps>\d+))?"
    rf"|(?P<stale>stale)"
    rf"|(?P<histogram>{_HISTOGRAM})(?:(?P<sign>[+-])(?P<change>{_HISTOGRAM}))?(?:x(?P<copies>\d+))?"
    rf"|(?P<start>[+-]?{_UNSIGNED})(?:(?:(?P<step>[+-]{_UNSIGNED}))?x(?P<times>\d+))?",
    re.ASCII | re.DOTALL,
)
_BLANK = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class HistogramRun:
    """Native histograms from position `index` on: the first, then `copies` more.

    Each adds (`sign` "+") or subtracts ("-") `change` from the one before; "": all are the same.
    """

    index: int
    text: str
    copies: int = 0
    sign: str = ""
    change: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """One value per step: `values` float64[N], staleness markers included; `present` bool[N].

    Where native histograms stand the value is NaN; `histograms` has their texts, one per step,
    None for a float; () where there is none at all.
    """

    values: Float64Array
    present: BoolArray
    histograms: tuple[str | None, ...] = ()


def read_metric(text: str) -> dict[str, str]:
    """The labels of `name{a="b"}`, `__name__` included. Raises ProblemsError, spans in `text`.

    As in Prometheus an empty value is no label behind a name, and one without a name.
    """
    source = Source("<series>", text)
    cursor = Cursor(source, tokenize(text))
    first = cursor.peek()
    if first.kind is Kind.END:
        return {}
    name = cursor.next() if first.kind is Kind.NAME else None
    if name is None and not cursor.at("{"):
        cursor.fail("a series", "the name of a metric or '{'")
    selector = read_selector(cursor, name)
    if cursor.peek().kind is not Kind.END:
        cursor.fail("a series", "nothing after the labels")
    labels: dict[str, str] = {}
    for matcher in selector.matchers:
        if matcher.op != "=":
            hint = "a series has its labels written with '='"
            cursor.refuse(matcher.span, f"'{matcher.op}' in the name of a series", hint)
        if matcher.label in labels:
            cursor.refuse(matcher.span, f"the label '{matcher.label}' appears twice")
        labels[matcher.label] = matcher.value
    if cursor.problems:
        raise ProblemsError(cursor.problems)
    if name is None:
        return labels
    return {label: value for label, value in labels.items() if value}


def read_values(text: str) -> Sequence:
    """`1 2+3x2 _ stale` as one value per step. Raises ProblemsError, spans in `text`."""
    parts: list[Float64Array] = []
    gaps: list[BoolArray] = []
    histograms: list[HistogramRun] = []
    if broken := re.search(r"\S\s*?(\n)\s*\S", text):
        hint = "a series stands on one line; long ones are folded with '>-'"
        raise _problem(text, Span(*broken.span(1)), "a line break between values", hint)
    position = _skip(text, 0)
    count = 0
    while position < len(text):
        match = _ITEM.match(text, position)
        if match is None or (match.end() < len(text) and not text[match.end()].isspace()):
            raise _refused(text, position)
        length = _length(match)
        if count + length > MOST_SAMPLES:
            raise _problem(
                text,
                Span(match.start(), match.end()),
                f"more than {MOST_SAMPLES:,} samples in one series",
            )
        if match["histogram"] is not None:
            run = HistogramRun(
                count, match["histogram"], length - 1, match["sign"] or "", match["change"] or ""
            )
            histograms.append(run)
        parts.append(_values(match, length))
        gaps.append(np.full(length, match["gap"] is None))
        count += length
        position = _skip(text, match.end())
    return Sequence(
        np.concatenate([np.empty(0), *parts]),
        np.concatenate([np.empty(0, dtype=np.bool_), *gaps]),
        _texts(text, histograms, count),
    )


def _texts(text: str, runs: list[HistogramRun], count: int) -> tuple[str | None, ...]:
    if not runs:
        return ()
    found: list[str | None] = [None] * count
    previous: Histogram | None = None
    for run in runs:
        for index, histogram in enumerate(_expanded(text, run), start=run.index):
            stored = histogram if previous is None else histogram.following(previous)
            found[index] = str(stored)
            previous = histogram
    return tuple(found)


def _expanded(text: str, run: HistogramRun) -> list[Histogram]:
    place = text.find(run.text)
    span = Span(place, place + len(run.text))
    if run.copies > MOST_HISTOGRAMS:
        raise _problem(text, span, f"more than {MOST_HISTOGRAMS:,} native histograms in a row")
    try:
        return expanded(run)
    except HistogramError as error:
        raise _problem(text, span, str(error)) from None


def _skip(text: str, position: int) -> int:
    blank = _BLANK.match(text, position)
    return blank.end() if blank else position


def _length(match: re.Match[str]) -> int:
    """`1x3` are four values, `_x3` three gaps."""
    if match["gap"]:
        return _count(match["gaps"], 1)
    return 1 + _count(match["copies"] or match["times"], 0)


def _count(digits: str | None, default: int) -> int:
    if digits is None:
        return default
    return int(digits) if len(digits) <= 12 else MOST_SAMPLES + 1


def _values(match: re.Match[str], length: int) -> Float64Array:
    if match["stale"]:
        return np.full(1, STALE_NAN)
    if match["start"] is None:
        return np.full(length, np.nan)
    start = _number(match["start"])
    if match["step"] is None:
        return np.full(length, start)
    # Added up one by one, as Prometheus does: the last value carries the rounding of all sums.
    values = np.full(length, _number(match["step"]))
    values[:1] = start
    with np.errstate(all="ignore"):
        return np.cumsum(values)


def _number(text: str) -> float:
    sign = -1.0 if text[0] == "-" else 1.0
    digits = text.lstrip("+-")
    if digits[0].isalpha():
        return sign * float(digits)
    value = number_value(digits)
    return sign * (float("inf") if value is None else value)


def _refused(text: str, position: int) -> ProblemsError:
    end = position
    while end < len(text) and not text[end].isspace():
        end += 1
    word = text[position:end]
    hint = "values are written as 1, 1x3, 1+2x3, 1-2x3, _, _x3, stale, NaN, Inf or {{...}}"
    if "," in word:
        hint = "values are separated by spaces"
    elif re.fullmatch(r"stalex\d+", word):
        hint = "'stale' cannot be repeated; after one marker write gaps: 'stale _x3'"
    elif re.fullmatch(r"[+-]?(?:nan|inf)x\d+", word, re.IGNORECASE):
        hint = f"write '{word[: -len(word.split('x')[-1]) - 1]}+0x{word.split('x')[-1]}'"
    return _problem(text, Span(position, end), f"'{word[:60]}' is no value of a series", hint)


def _problem(text: str, span: Span, message: str, hint: str = "") -> ProblemsError:
    return ProblemsError([Problem(Source("<values>", text), span, message, hint, "series")])
