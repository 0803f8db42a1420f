"""Text with a place: spans, problems and how a problem is shown under its line."""

from __future__ import annotations

import bisect
import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from rules.errors import StallwatchError
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable

_LINE_END = re.compile("\n")
Severity = Literal["error", "warning"]

# Characters of a line that are shown; nobody reads the rest of a minified file.
LONGEST_LINE = 200


class Span(NamedTuple):
    """A half-open range of character offsets, [start, end), into a text."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The smallest span that covers both."""
        start, end = self
        first, last = other
        return Span(min(start, first), max(end, last))


@dataclass(frozen=True, slots=True)
class Source:
    """A text and the name that messages use for it (a path, or `<expression>`)."""

    name: str
    text: str
    # Worked out when a place is asked for: most texts are right, and there are many.
    _starts: list[int] = field(init=False, repr=False, compare=False, default_factory=list)

    @property
    def _line_starts(self) -> list[int]:
        if not self._starts:
            found = [0, *(match.end() for match in _LINE_END.finditer(self.text))]
            self._starts[:] = found
        return self._starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both counted from 1."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect.bisect_right(self._line_starts, offset) - 1
        return line + 1, offset - self._line_starts[line] + 1

    def offset(self, line: int, column: int) -> int:
        """The character offset of a line and column, both counted from 1."""
        return self._line_starts[line - 1] + column - 1

    def line(self, number: int) -> str:
        """Line `number`, counted from 1, without its newline."""
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong at one place. Data only: `render` turns it into text.

    `message` says what is wrong, `hint` how to mend it; `code` is stable and machine-readable.
    """

    source: Source
    span: Span
    message: str
    hint: str = ""
    code: str = ""
    severity: Severity = "error"

    @property
    def place(self) -> str:
        """`file:line:column`."""
        line, column = self.source.position(self.span.start)
        return f"{self.source.name}:{line}:{column}"

    def render(self) -> str:
        """The place and message, the line, a caret under the span, and the hint."""
        line, column = self.source.position(self.span.start)
        text, column = _window(self.source.line(line), column)
        width = max(1, min(self.span.end - self.span.start, len(text) - column + 1))
        # A tab before the caret must be a tab below it too, or the caret slips.
        pad = "".join("\t" if char == "\t" else " " for char in text[: column - 1])
        label = "" if self.severity == "error" else f"{self.severity}: "
        shown = [f"{self.place}: {label}{self.message}", f"    {text}", f"    {pad}{'^' * width}"]
        if self.hint:
            shown.append(f"    hint: {self.hint}")
        return "\n".join(shown)


def _window(line: str, column: int) -> tuple[str, int]:
    """A long line cut to what stands around a column, and the column in the cut."""
    if len(line) <= LONGEST_LINE:
        return line, column
    start = max(0, min(column - LONGEST_LINE // 2, len(line) - LONGEST_LINE))
    before = "..." if start else ""
    after = "..." if start + LONGEST_LINE < len(line) else ""
    return before + line[start : start + LONGEST_LINE] + after, column - start + len(before)


class ProblemsError(StallwatchError):
    """One or more located problems; the text shows all of them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(problem.render() for problem in self.problems))
