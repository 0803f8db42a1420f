"""Alertmanager's matchers: `severity=~"critical|page"`, alone or as a list in braces.

Two syntaxes are read. The UTF-8 one (matcher/parse in Alertmanager) quotes with Go's escapes and
takes any label; the classic one (pkg/labels/parse.go) takes label names of Prometheus 2 and nearly
any value after them. A text that only one of them understands is read by that one. Where both
do and disagree, the classic one decides, as in Alertmanager's default mode (matcher/compat).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Protocol, cast

from rules.errors import StallwatchError
from rules.promql.regex import PatternError, alternatives, compile_search
from rules.promql.strings import EscapeError, quote, unquote
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Operator = Literal["=", "!=", "=~", "!~"]

# In the order in which Alertmanager sorts matchers that are otherwise alike (pkg/labels).
OPERATORS: Final[tuple[Operator, ...]] = ("=", "!=", "=~", "!~")
_RESERVED: Final = "{}!=~,\\\"'`"
# Python's white space less the separators that Go's unicode.IsSpace does not count.
_SPACE: Final = r"[^\S\x1c-\x1f]"
_UNQUOTED: Final = rf"(?:[^\s{re.escape(_RESERVED)}]|[\x1c-\x1f])+"
_NEEDS_QUOTES = re.compile(rf"{_SPACE}|[{re.escape(_RESERVED)}]")
_TOKEN = re.compile(
    rf"(?P<space>{_SPACE}+)|(?P<open>\{{)|(?P<close>\}})|(?P<comma>,)|(?P<operator>=~|!=|!~|=)"
    rf'|(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<unquoted>{_UNQUOTED})',
    re.DOTALL,
)
_CLASSIC = re.compile(
    r"[\t\n\f\r ]*([a-zA-Z_:][a-zA-Z0-9_:]*)[\t\n\f\r ]*(=~|=|!=|!~)[\t\n\f\r ]*(.*?)[\t\n\f\r ]*",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class _Labels(Protocol):
    def get(self, name: str, default: str, /) -> str: ...


class MatcherError(StallwatchError):
    """A text that is no list of matchers. `start` and `end` bound the fault in the text."""

    def __init__(self, text: str, start: int, end: int, message: str, hint: str = "") -> None:
        mend = f"; {hint}" if hint else ""
        super().__init__(f"bad matcher '{text}', character {start + 1}: {message}{mend}")
        self.message = message
        self.hint = hint
        self.start = start
        self.end = end


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label. Raises PatternError for an expression that RE2 refuses.

    An expression has to match the whole value, and `.` is no line end (pkg/labels/matcher.go).
    """

    label: str
    op: Operator
    value: str
    _holds: Callable[[str], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_holds", _predicate(self.op, self.value))

    def matches(self, labels: _Labels) -> bool:
        """Whether it holds for these labels (a dict or `Labels`). An absent label has value ""."""
        return self._holds(labels.get(self.label, ""))

    def __str__(self) -> str:
        """Alertmanager's spelling: `label="value"`."""
        if _NEEDS_QUOTES.search(self.label):
            return f"{quote(self.label)}{self.op}{quote(self.value)}"
        escaped = self.value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        return f'{self.label}{self.op}"{escaped}"'


def all_match(matchers: Iterable[Matcher], labels: _Labels) -> bool:
    """Whether every matcher holds; true without any."""
    return all(matcher.matches(labels) for matcher in matchers)


def ordered(matchers: Iterable[Matcher]) -> tuple[Matcher, ...]:
    """In the order in which Alertmanager writes them: label, value, operator."""
    return tuple(sorted(matchers, key=lambda one: (one.label, one.value, OPERATORS.index(one.op))))


def spelled(matchers: Iterable[Matcher]) -> str:
    """`{a="b",c=~"d"}`, as Alertmanager writes a list of matchers."""
    return f"{{{','.join(map(str, matchers))}}}"


def parse_matchers(text: str) -> tuple[Matcher, ...]:
    """The matchers of `{a="b", c=~"d"}` or `a=b`, in the order of the text; braces may be absent.

    Raises MatcherError, with what the UTF-8 syntax says of the text.
    """
    try:
        modern = _Utf8(text).matchers()
    except MatcherError:
        classic = _classic(text)
        if classic is None:
            raise
        return classic
    classic = _classic(text)
    return modern if classic is None else classic


def _predicate(op: Operator, value: str) -> Callable[[str], bool]:
    if op == "=":
        return value.__eq__
    if op == "!=":
        return value.__ne__
    literals = alternatives(value)
    matches: Callable[[str], Any]
    matches = compile_search(value).fullmatch if literals is None else literals.__contains__
    if op == "=~":
        return lambda text: bool(matches(text))
    return lambda text: not matches(text)


class _Utf8:
    """The UTF-8 syntax: one pass over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._advance()

    def matchers(self) -> tuple[Matcher, ...]:
        """All of them. Raises MatcherError."""
        found: list[Matcher] = []
        opened = self._kind == "open"
        if opened:
            self._take()
        while self._kind not in {"close", "end"}:
            found.append(self._matcher())
            if self._kind == "comma":
                self._take()
            elif self._kind not in {"close", "end"}:
                self._refuse("expected a comma", "quote a value that has spaces or one of {}!=~,'`")
        if opened and self._kind == "end":
            self._refuse("expected a closing brace", "end the list with }")
        if self._kind == "close":
            if not opened:
                self._refuse("a closing brace and none that opens", "begin the list with {")
            self._take()
        if self._kind != "end":
            self._refuse("expected the end of the matchers", "nothing follows the closing brace")
        return tuple(found)

    def _matcher(self) -> Matcher:
        label, _ = self._word("a label's name", 'such as severity="critical"')
        if self._kind != "operator":
            self._refuse("expected = != =~ or !~ after the label's name", "")
        op = cast("Operator", self._take())
        value, (start, end) = self._word("a value", f'an empty one is written {label}{op}""')
        try:
            return Matcher(label, op, value)
        except PatternError as error:
            message = f"{error}: {error.fragment}" if error.fragment else str(error)
            raise MatcherError(self._text, start, end, message, error.hint) from None

    def _word(self, what: str, hint: str) -> tuple[str, tuple[int, int]]:
        place = self._start, self._at
        if self._kind == "unquoted":
            return self._take(), place
        if self._kind != "quoted":
            self._refuse(f"expected {what}", hint)
        literal = self._text[place[0] : place[1]]
        try:
            word = unquote(literal)
        except EscapeError as error:
            hint = "write a backslash as \\\\"
            start, end = place[0] + error.start, place[0] + error.end
            raise MatcherError(self._text, start, end, str(error), hint) from None
        if "\n" in literal:
            self._refuse("a line end inside quotes", "write it as \\n")
        if "\ufffd" in word and "\ufffd" not in literal and "\\ufffd" not in literal:
            self._refuse("the escapes are not valid UTF-8", "write the character itself")
        self._take()
        return word, place

    def _take(self) -> str:
        token = self._text[self._start : self._at]
        self._advance()
        return token

    def _advance(self) -> None:
        """To the next token; one that is none is refused when it is asked for."""
        while True:
            self._start = self._at
            token = _TOKEN.match(self._text, self._at)
            if token is None:
                self._kind = "end" if self._at == len(self._text) else "wrong"
                self._at = min(self._at + 1, len(self._text))
                return
            self._at = token.end()
            if token.lastgroup != "space":
                self._kind = str(token.lastgroup)
                return

    def _refuse(self, message: str, hint: str) -> NoReturn:
        start, end = self._start, self._at
        if self._kind == "wrong" and self._text[start] == '"':
            message, hint, end = "a quote that nothing closes", 'add a "', len(self._text)
        elif self._kind == "wrong":
            message = f"{self._text[start]} outside quotes"
            hint = 'put "..." around the label or value'
        raise MatcherError(self._text, start, end, message, hint)


def _classic(text: str) -> tuple[Matcher, ...] | None:
    """What the classic syntax reads in a text, None where it does not understand it."""
    found = []
    for part in _classic_parts(text.removeprefix("{").removesuffix("}")):
        match = _CLASSIC.fullmatch(part)
        value = None if match is None else _classic_value(match[3])
        if match is None or value is None:
            return None
        try:
            found.append(Matcher(match[1], cast("Operator", match[2]), value))
        except PatternError:
            return None
    return tuple(found)


def _classic_parts(text: str) -> list[str]:
    """The texts between commas outside quotes; nothing after the last comma is no part."""
    parts = []
    inside = escaped = False
    start = 0
    for place, char in enumerate(text):
        if char == "," and not inside:
            parts.append(text[start:place])
            start = place + 1
        elif char == '"':
            inside = inside == escaped
            escaped = False
        elif char == "\\":
            escaped = not escaped
        elif char != ",":
            escaped = False
    rest = text[start:].strip()
    return [*parts, rest] if rest else parts


def _classic_value(raw: str) -> str | None:
    """A value with or without quotes, its escapes resolved; an unknown escape stays as it is."""
    quoted = raw.startswith('"')
    body = raw[1:] if quoted else raw
    plain = _ESCAPED.sub("", body)
    if quoted and not plain.endswith('"'):
        return None
    if quoted:
        body, plain = body[:-1], plain[:-1]
    if '"' in plain:
        return None
    known = {"n": "\n", '"': '"', "\\": "\\"}
    return _ESCAPED.sub(lambda found: known.get(found[1], found[0]), body)
