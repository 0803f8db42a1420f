"""Scripts as data: load, clear and eval commands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .notation import (
    MOST_REPEATS,
    Item,
    ScriptError,
    duration_ms,
    lone_number,
    sequence,
    split_series,
    starts,
    unquote,
)

if TYPE_CHECKING:
    from engine.labels import Labels

_LOAD = re.compile(r"load(?P<nhcb>_with_nhcb)?\s+(?P<step>.+)")
_INSTANT = re.compile(
    r"eval(?:_(?P<mode>fail|warn|ordered|info))?\s+instant\s+at\s+(?P<at>.+?)\s+(?P<expr>.+)"
)
_RANGE = re.compile(
    r"eval(?:_(?P<mode>fail|warn|info))?\s+range\s+from\s+(?P<start>.+)\s+to\s+(?P<end>.+)\s+"
    r"step\s+(?P<step>.+?)\s+(?P<expr>.+)"
)
_EXPECT = re.compile(
    r"expect\s+(?P<kind>ordered|fail|warn|no_warn|info|no_info)"
    r"(?:\s+(?P<how>msg|regex):(?P<text>.+))?"
)
_EXPECT_STRING = "expect string"
_EXPECT_MATRIX = re.compile(
    r"expect range vector\s+from\s+(?P<start>.+)\s+to\s+(?P<end>.+)\s+step\s+(?P<step>.+)"
)
_OLD_FAILURE = re.compile(r"expected_fail_(?P<how>message|regexp)\s*(?P<text>.*)")
_CONTRADICTIONS = (("info", "no_info"), ("warn", "no_warn"))


@dataclass(frozen=True)
class LoadedSeries:
    """One series of a load. `starts`: per item, start time less time in milliseconds, or None."""

    labels: Labels
    items: list[Item]
    starts: list[int | None]


@dataclass(frozen=True)
class Load:
    """Adds series, their samples from time 0 on, one each step."""

    line: int
    step_ms: int
    series: list[LoadedSeries]
    nhcb: bool


@dataclass(frozen=True)
class Clear:
    """Forgets all series."""


@dataclass(frozen=True)
class Expectation:
    """What an error or annotation must say: any text, this text, or a pattern."""

    kind: str
    how: str = ""
    text: str = ""

    def accepts(self, message: str) -> bool:
        """Whether a message is as expected."""
        if self.how == "msg":
            return message == self.text
        return re.search(self.text, message) is not None


@dataclass
class Evaluation:
    """An eval. `step_ms` None: instant, at `start_ms`.

    `matrix_ms`: start, end and step of the points of a range vector that is expected.
    """

    line: int
    expr: str
    start_ms: int
    end_ms: int
    step_ms: int | None
    expectations: list[Expectation] = field(default_factory=list)
    series: dict[Labels, list[Item]] = field(default_factory=dict)
    scalar: float | None = None
    string: str | None = None
    matrix_ms: tuple[int, int, int] | None = None

    @property
    def is_instant(self) -> bool:
        """One time, and not a range."""
        return self.step_ms is None

    def expects(self, kind: str) -> bool:
        """Whether there is such an expectation."""
        return any(one.kind == kind for one in self.expectations)


Command = Load | Clear | Evaluation


def parse_script(text: str) -> list[Command]:
    """All commands of a script. Raises ScriptError, with the line."""
    # A comment counts as an empty line, and an empty line ends a command.
    lines = [line.strip() for line in text.split("\n")]
    lines = ["" if line.startswith("#") else line for line in lines]
    commands: list[Command] = []
    position = 0
    while position < len(lines):
        head = lines[position]
        position += 1
        word = head.split()[0].lower() if head else ""
        if not word:
            continue
        if word == "clear":
            commands.append(Clear())
            continue
        first = position
        while position < len(lines) and lines[position]:
            position += 1
        try:
            commands.append(_command(head, lines[first:position], first))
        except ScriptError as error:
            raise ScriptError(error.reason, error.line or first) from None
    return commands


def _command(head: str, body: list[str], line: int) -> Command:
    if match := _LOAD.fullmatch(head):
        return Load(line, duration_ms(match["step"]), _loaded(body, line), bool(match["nhcb"]))
    if match := _INSTANT.fullmatch(head):
        at = duration_ms(match["at"])
        evaluation = Evaluation(line, match["expr"], at, at, None)
    elif match := _RANGE.fullmatch(head):
        start, end, step = _span(match)
        evaluation = Evaluation(line, match["expr"], start, end, step)
    else:
        raise ScriptError(
            f"not a command: {head!r}; there are 'load STEP', 'load_with_nhcb STEP', 'clear', "
            "'eval instant at TIME EXPR' and 'eval range from START to END step STEP EXPR'"
        )
    if match["mode"]:
        evaluation.expectations.append(Expectation(match["mode"]))
    number = line
    try:
        for text in body:
            number += 1
            _expect(evaluation, text)
    except ScriptError as error:
        raise ScriptError(error.reason, number) from None
    return evaluation


def _span(match: re.Match[str]) -> tuple[int, int, int]:
    start, end, step = (duration_ms(match[name]) for name in ("start", "end", "step"))
    if end < start:
        raise ScriptError("the end is before the start")
    if not step:
        raise ScriptError("the step is 0")
    if (end - start) // step >= MOST_REPEATS:
        raise ScriptError(f"more than {MOST_REPEATS} steps")
    return start, end, step


def _loaded(body: list[str], line: int) -> list[LoadedSeries]:
    loaded: list[LoadedSeries] = []
    given = _StartTimes()
    number = line
    try:
        for text in body:
            number += 1
            labels, gives_starts, values = split_series(text)
            if gives_starts:
                given.read(number, labels, values)
                continue
            items = sequence(values)
            loaded.append(LoadedSeries(labels, items, given.of(labels, len(items))))
        given.settle()
    except ScriptError as error:
        raise ScriptError(error.reason, error.line or number) from None
    return loaded


@dataclass
class _StartTimes:
    """What '@st' lines say: of the series on the line after, or with no name of all that follow."""

    usual: list[int | None] = field(default_factory=list)
    pending: tuple[int, Labels, list[int | None]] | None = None

    def read(self, line: int, labels: Labels, values: str) -> None:
        """An '@st' line."""
        self.settle()
        if labels.pairs:
            self.pending = (line, labels, starts(values))
        else:
            self.usual = starts(values)

    def settle(self) -> None:
        """No line waits for its series."""
        if self.pending is not None:
            raise ScriptError("no samples follow the '@st' line", self.pending[0])

    def of(self, labels: Labels, count: int) -> list[int | None]:
        """The start times of a series with so many samples."""
        if self.pending is None:
            usual = self.usual
            return [usual[index % len(usual)] if usual else None for index in range(count)]
        (line, owner, found), self.pending = self.pending, None
        if owner != labels:
            raise ScriptError("the '@st' line is of another series than the line after it", line)
        if len(found) != count:
            raise ScriptError(f"{len(found)} start times for {count} samples", line)
        return found


def _expect(evaluation: Evaluation, text: str) -> None:
    if evaluation.scalar is not None:
        raise ScriptError(f"a line after the number: {text!r}")
    if text.startswith(_EXPECT_STRING):
        evaluation.string = unquote(text.removeprefix(_EXPECT_STRING).strip())
    elif text.startswith("expect range vector"):
        match = _EXPECT_MATRIX.fullmatch(text)
        if match is None or not evaluation.is_instant:
            raise ScriptError("wanted 'expect range vector from START to END step STEP'")
        evaluation.matrix_ms = _span(match)
        # The query's time is the end, whatever the command said.
        evaluation.start_ms = evaluation.end_ms = evaluation.matrix_ms[1]
    elif text.split(maxsplit=1)[0] == "expect":
        _expect_annotation(evaluation, text)
    elif evaluation.expects("fail") and (match := _OLD_FAILURE.fullmatch(text)):
        how = "msg" if match["how"] == "message" else "regex"
        _add(evaluation, Expectation("fail", how, match["text"].strip()))
    elif (number := lone_number(text)) is not None:
        evaluation.scalar = number
    else:
        labels, gives_starts, values = split_series(text)
        items = sequence(values)
        if gives_starts:
            raise ScriptError("a result has no start times")
        if len(items) > 1 and evaluation.is_instant and evaluation.matrix_ms is None:
            raise ScriptError(
                "several values of one series at one time; 'expect range vector' allows them"
            )
        evaluation.series[labels] = items


def _expect_annotation(evaluation: Evaluation, text: str) -> None:
    match = _EXPECT.fullmatch(text)
    if match is None:
        raise ScriptError(
            f"unreadable {text!r}; wanted 'expect KIND', 'expect KIND msg: TEXT' or 'expect KIND "
            "regex: PATTERN' with fail, warn, no_warn, info, no_info or ordered"
        )
    expected = (match["text"] or "").strip()
    _add(evaluation, Expectation(match["kind"], match["how"] or "", expected))
    for one, other in _CONTRADICTIONS:
        if evaluation.expects(one) and evaluation.expects(other):
            raise ScriptError(f"'expect {one}' and 'expect {other}' contradict each other")


def _add(evaluation: Evaluation, expectation: Expectation) -> None:
    if expectation.how == "regex":
        try:
            re.compile(expectation.text)
        except re.error as error:
            raise ScriptError(f"not a regular expression: {expectation.text} ({error})") from None
    # `eval_fail` with a message is one expectation, not two.
    bare = Expectation("fail")
    if expectation.kind == "fail" and bare in evaluation.expectations:
        evaluation.expectations.remove(bare)
    elif expectation.kind == "fail" and evaluation.expects("fail"):
        raise ScriptError("'expect fail' comes twice")
    evaluation.expectations.append(expectation)
