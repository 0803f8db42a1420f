"""Scripts as data: load, clear and eval commands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .notation import Item, ScriptError, duration_ms, lone_number, sequence, split_series, unquote

if TYPE_CHECKING:
    from engine.labels import Labels

_LOAD = re.compile(r"load(?P<nhcb>_with_nhcb)?\s+(?P<step>\S+)$")
_INSTANT = re.compile(
    r"eval(?:_(?P<mode>fail|warn|ordered|info))?\s+instant\s+at\s+(?P<at>\S+)\s+(?P<expr>.+)$"
)
_RANGE = re.compile(
    r"eval(?:_(?P<mode>fail|warn|info))?\s+range\s+from\s+(?P<start>\S+)\s+to\s+(?P<end>\S+)\s+"
    r"step\s+(?P<step>\S+)\s+(?P<expr>.+)$"
)
_EXPECT = re.compile(
    r"expect\s+(?P<kind>ordered|fail|warn|no_warn|info|no_info)(?:\s+(?P<how>msg|regex):(?P<text>.*))?$"
)
_EXPECT_STRING = re.compile(r"expect\s+string\s+(?P<text>.+)$")
_EXPECT_MATRIX = re.compile(
    r"expect\s+range\s+vector\s+from\s+(?P<start>\S+)\s+to\s+(?P<end>\S+)\s+step\s+(?P<step>\S+)$"
)
_OLD_MESSAGE = re.compile(r"expected_fail_(?P<how>message|regexp)\s+(?P<text>.+)$")


@dataclass(frozen=True)
class LoadedSeries:
    """One line of a load. `start_timestamps`: the line gives start times, not values."""

    labels: Labels
    items: list[Item]
    start_timestamps: bool


@dataclass(frozen=True)
class Load:
    """Adds series."""

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
    """An eval. `step_ms` None: instant, at `start_ms`."""

    line: int
    expr: str
    start_ms: int
    end_ms: int
    step_ms: int | None
    expectations: list[Expectation] = field(default_factory=list)
    series: list[tuple[Labels, list[Item]]] = field(default_factory=list)
    scalar: Item = None
    string: str | None = None
    matrix_ms: tuple[int, int] | None = None

    def expects(self, kind: str) -> bool:
        """Whether there is such an expectation."""
        return any(one.kind == kind for one in self.expectations)


Command = Load | Clear | Evaluation


def parse_script(text: str) -> list[Command]:
    """All commands of a script. Raises ScriptError."""
    # A comment counts as an empty line, and an empty line ends a command.
    lines = [line.strip() for line in text.splitlines()]
    lines = ["" if line.startswith("#") else line for line in lines]
    commands: list[Command] = []
    position = 0
    while position < len(lines):
        head = lines[position]
        end = position + 1
        if not head:
            position += 1
            continue
        if head == "clear":
            commands.append(Clear())
            position += 1
            continue
        while end < len(lines) and lines[end]:
            end += 1
        body = lines[position + 1 : end]
        commands.append(_command(head, body, position + 1))
        position = end
    return commands


def _command(head: str, body: list[str], line: int) -> Command:
    if match := _LOAD.fullmatch(head):
        series = []
        for text in body:
            labels, suffix, values = split_series(text)
            # Start times are not read yet, so neither are their values.
            items = [] if suffix else sequence(values)
            series.append(LoadedSeries(labels, items, bool(suffix)))
        return Load(duration_ms(match["step"]), series, bool(match["nhcb"]))
    if match := _INSTANT.fullmatch(head):
        at = duration_ms(match["at"])
        evaluation = Evaluation(line, match["expr"], at, at, None)
    elif match := _RANGE.fullmatch(head):
        evaluation = Evaluation(
            line,
            match["expr"],
            duration_ms(match["start"]),
            duration_ms(match["end"]),
            duration_ms(match["step"]),
        )
    else:
        raise ScriptError(f"line {line}: unknown command {head!r}")
    if match["mode"]:
        evaluation.expectations.append(Expectation(match["mode"]))
    for text in body:
        _expect(evaluation, text)
    return evaluation


def _expect(evaluation: Evaluation, text: str) -> None:
    if match := _EXPECT_STRING.fullmatch(text):
        evaluation.string = unquote(match["text"].strip())
    elif match := _EXPECT_MATRIX.fullmatch(text):
        evaluation.matrix_ms = (duration_ms(match["start"]), duration_ms(match["step"]))
    elif match := _EXPECT.fullmatch(text):
        expected = (match["text"] or "").strip()
        evaluation.expectations.append(Expectation(match["kind"], match["how"] or "", expected))
    elif match := _OLD_MESSAGE.fullmatch(text):
        how = "msg" if match["how"] == "message" else "regex"
        evaluation.expectations.append(Expectation("fail", how, match["text"].strip()))
    else:
        number = lone_number(text)
        if number is not None:
            evaluation.scalar = number
            return
        labels, _, values = split_series(text)
        evaluation.series.append((labels, sequence(values)))
