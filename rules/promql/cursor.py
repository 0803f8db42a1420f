"""A place in a list of tokens, and the ways a parser moves on or gives up there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from rules.promql.tokens import Kind, Token
from rules.source import Problem, ProblemsError, Source, Span

if TYPE_CHECKING:
    from collections.abc import Callable

CODE: Final = "promql"
# More than this many in one expression are one mistake repeated.
MAX_PROBLEMS: Final = 20


class Cursor:
    """The tokens of one expression, the next one to read, and the problems found so far.

    `fail` and `refuse` end the parse; `report` notes a problem that the rest can be read after.
    """

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source = source
        self.tokens = tokens
        self.index = 0
        self.token = tokens[0]
        """The next token to read."""
        self.problems: list[Problem] = []
        self.deferred: list[Problem] = []
        self.open: list[Token] = []

    def peek(self, ahead: int = 0) -> Token:
        """The token `ahead` places on (negative: already read); END past the end."""
        place = self.index + ahead
        return self.tokens[max(0, min(place, len(self.tokens) - 1))]

    def next(self) -> Token:
        """Read one token. END, the last one, stays."""
        token = self.token
        if token.kind is not Kind.END:
            self.index += 1
            self.token = self.tokens[self.index]
        return token

    def at(self, *symbols: str) -> bool:
        """Whether the next token is one of these symbols."""
        return self.token.symbol in symbols

    def at_word(self, *words: str) -> bool:
        """Whether the next token is one of these words, in any case."""
        return self.token.word in words

    def accept(self, *symbols: str) -> Token | None:
        """Read the next token if it is one of these symbols."""
        return self.next() if self.token.symbol in symbols else None

    def accept_word(self, *words: str) -> Token | None:
        """Read the next token if it is one of these words."""
        return self.next() if self.token.word in words else None

    def enter(self) -> Token:
        """Read an opening bracket, to be named if it is never closed."""
        token = self.next()
        self.open.append(token)
        return token

    def leave(self, symbol: str, context: str, expected: str, hint: Callable[[], str]) -> Token:
        """Read the closing bracket of the last one entered, or fail."""
        if self.token.symbol != symbol:
            self.fail(context, expected, hint)
        self.open.pop()
        return self.next()

    def text(self, span: Span) -> str:
        """The source under a span."""
        return self.source.text[span.start : span.end]

    def report(self, span: Span, message: str, hint: str = "") -> None:
        """Note a problem and go on, unless there are many already."""
        self.problems.append(Problem(self.source, span, message, hint, CODE))
        if len(self.problems) >= MAX_PROBLEMS:
            raise ProblemsError(in_order(self.problems))

    def defer(self, span: Span, message: str, hint: str = "") -> None:
        """Note an error of types: shown only if the syntax is right."""
        if len(self.deferred) < MAX_PROBLEMS:
            self.deferred.append(Problem(self.source, span, message, hint, CODE))

    def refuse(self, span: Span, message: str, hint: str = "") -> NoReturn:
        """Note a problem and give up."""
        self.report(span, message, hint)
        raise ProblemsError(in_order(self.problems))

    def fail(self, context: str, expected: str, hint: Callable[[], str] | None = None) -> NoReturn:
        """Give up at the next token: it is not what was expected there."""
        token = self.token
        if token.kind is Kind.BAD:
            named = " expected " in token.message or "out of range" in token.message
            message = token.message if named else f"{token.message}, expected {expected}"
            self.refuse(token.span, message, token.hint or (hint() if hint else ""))
        if token.kind is Kind.END and self.open and expected.endswith(_CLOSERS):
            opener = self.open[-1]
            message = f'"{opener.text}" is never closed: expected {expected}'
            closer = _PAIRS[opener.text]
            self.refuse(opener.span, message, (hint and hint()) or f'add the missing "{closer}"')
        where = f" in {context}" if context else ""
        message = f"unexpected {token.described}{where}, expected {expected}"
        self.refuse(token.span, message, hint() if hint else "")


_PAIRS: Final = {"(": ")", "[": "]", "{": "}"}
_CLOSERS: Final = tuple(f'"{closer}"' for closer in _PAIRS.values())


def in_order(problems: list[Problem]) -> tuple[Problem, ...]:
    """The problems as they stand in the text; of several that start together, the narrowest.

    A wider one follows from it: `rate(x[5m] > 5)` compares a range, and so gives rate no range.
    """
    narrowest: dict[int, Problem] = {}
    for problem in sorted(problems, key=lambda problem: problem.span):
        narrowest.setdefault(problem.span.start, problem)
    return tuple(narrowest.values())
