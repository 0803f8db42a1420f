"""The verbs of Go's fmt: one value as text, under flags, width and precision.

https://pkg.go.dev/fmt says what each verb does; a verb that does not fit its value prints
`%!verb(type=value)`, so nothing here fails.
"""

from __future__ import annotations

from typing import Any

from rules.slotted import dataclass, replace
from rules.templates.floats import format_float
from rules.templates.moments import Elapsed, Moment
from rules.templates.quoting import can_back_quote, is_printable, quoted
from rules.templates.values import Sample, Struct, Typed, type_name

_LARGEST_RUNE = 0x10FFFF
_WORD = 1 << 64
_BASES = {"d": 10, "v": 10, "b": 2, "o": 8, "O": 8, "x": 16, "X": 16}


@dataclass(frozen=True, slots=True)
class Verb:
    """`%+8.3f`: flags, width and precision (None: not given), and the letter."""

    letter: str
    plus: bool = False
    minus: bool = False
    sharp: bool = False
    space: bool = False
    zero: bool = False
    width: int | None = None
    precision: int | None = None
    # `%+v` and `%#v` are forms of their own, not signs and prefixes.
    named: bool = False
    syntax: bool = False

    def show(self, value: Any) -> str:
        """The value as text."""
        match value:
            case None:
                return self._pad("<nil>") if self.letter in "Tv" else self._misfit(value)
            case _ if self.letter == "T":
                return self._text(type_name(value))
            case bool():
                fits = self.letter in "tv"
                return self._pad(str(value).lower()) if fits else self._misfit(value)
            case float():
                return self._float(value)
            case int():
                return self._integer(value)
            case str():
                return self._string(value)
            case Moment() | Elapsed() if self.letter in "vsxXq":
                return self._string(str(value))
            case Typed() if "String" in value.methods and self.letter in "vsxXq":
                return self._string(str(value))
            case _ if self.letter in "pw":
                return self._misfit(value)
            case _:
                return self._compound(value, depth=0)

    def _misfit(self, value: Any) -> str:
        if value is None:
            return f"%!{self.letter}(<nil>)"
        shown = replace(self, letter="v").show(value)
        return f"%!{self.letter}({type_name(value)}={shown})"

    def _pad(self, text: str, *, zero: bool | None = None) -> str:
        if self.width is None or len(text) >= self.width:
            return text
        if self.minus:
            return text.ljust(self.width)
        with_zeros = self.zero if zero is None else zero
        return text.rjust(self.width, "0" if with_zeros else " ")

    def _compound(self, value: Any, depth: int) -> str:
        """Maps, lists and structures, whose elements take the verb each for itself."""
        inner = "" if depth else "&" * isinstance(value, Sample)
        match value:
            case dict():
                pairs = [f"{self._element(k)}:{self._element(v)}" for k, v in sorted(value.items())]
                opening, closing = (f"{type_name(value)}{{", "}") if self.syntax else ("map[", "]")
            case list():
                pairs = [self._element(item) for item in value]
                opening, closing = (f"{type_name(value)}{{", "}") if self.syntax else ("[", "]")
            case Sample(labels=labels, value=number):
                pairs = self._fields({"Labels": labels, "Value": number})
                opening, closing = inner + (type_name(value)[1:] if self.syntax else "") + "{", "}"
            case Struct(fields=fields):
                pairs = self._fields(fields)
                opening, closing = (type_name(value) if self.syntax else "") + "{", "}"
            case _:
                return self._misfit(value)
        return opening + (", " if self.syntax else " ").join(pairs) + closing

    def _fields(self, fields: dict[str, Any]) -> list[str]:
        named = self.named or self.syntax
        return [
            f"{name}:{self._element(value)}" if named else self._element(value)
            for name, value in fields.items()
        ]

    def _element(self, value: Any) -> str:
        if isinstance(value, dict | list | Sample | Struct):
            return self._compound(value, depth=1)
        return "<nil>" if value is None else self.show(value)

    def _string(self, value: str) -> str:
        match self.letter:
            case "v" if self.syntax:
                return self._quoted(value)
            case "v" | "s":
                return self._text(value)
            case "q":
                return self._quoted(value)
            case "x" | "X":
                return self._hexadecimal(value.encode("utf-8", "surrogateescape"))
            case _:
                return self._misfit(value)

    def _text(self, value: str) -> str:
        return self._pad(value if self.precision is None else value[: self.precision])

    def _quoted(self, value: str) -> str:
        text = value if self.precision is None else value[: self.precision]
        if self.sharp and can_back_quote(text):
            return self._pad(f"`{text}`")
        return self._pad(quoted(text, ascii_only=self.plus))

    def _hexadecimal(self, data: bytes) -> str:
        data = data if self.precision is None else data[: self.precision]
        digits = [f"{byte:02x}" for byte in data]
        prefix = "0x" if self.sharp else ""
        if self.space:
            text = " ".join(prefix + pair for pair in digits)
        else:
            text = (prefix if data else "") + "".join(digits)
        return self._pad(text.upper() if self.letter == "X" else text)

    def _integer(self, value: int) -> str:
        letter = self.letter
        if letter in _BASES:
            return self._number(value)
        if letter == "c":
            return self._pad(_rune(value))
        if letter == "q":
            return self._pad(quoted(_rune(value), "'", ascii_only=self.plus))
        if letter == "U":
            return self._unicode(value % _WORD)
        return self._misfit(value)

    def _number(self, value: int) -> str:
        least = self.precision or 0
        if self.precision == 0 and value == 0:
            return self._pad("", zero=False)
        if self.precision is None and self.zero and self.width is not None:
            least = self.width - (value < 0 or self.plus or self.space)
        digits = _in_base(abs(value), _BASES[self.letter]).rjust(least, "0")
        digits = digits.upper() if self.letter == "X" else digits
        if self.sharp and self.letter in "bxX":
            digits = f"0{self.letter}{digits}"
        elif self.sharp and self.letter in "oO" and digits[0] != "0":
            digits = f"0{digits}"
        if self.letter == "O":
            digits = f"0o{digits}"
        sign = "-" if value < 0 else "+" if self.plus else " " if self.space else ""
        return self._pad(sign + digits, zero=False)

    def _unicode(self, value: int) -> str:
        text = f"U+{value:X}"
        if len(text) - 2 < max(4, self.precision or 0):
            text = f"U+{value:0{max(4, self.precision or 0)}X}"
        if self.sharp and value <= _LARGEST_RUNE and is_printable(chr(value)):
            text += f" '{chr(value)}'"
        return self._pad(text, zero=False)

    def _float(self, value: float) -> str:
        letter = {"v": "g", "F": "f"}.get(self.letter, self.letter)
        if letter not in "eEfgGbxX":
            return self._misfit(value)
        precision = self.precision
        if precision is None and letter in "efE":
            precision = 6
        text = format_float(value, letter, precision)
        if text[0] not in "+-":
            text = f"+{text}"
        if self.space and not self.plus and text[0] == "+":
            text = f" {text[1:]}"
        if text[1] in "IN":
            if text[1] == "N" and not self.space and not self.plus:
                text = text[1:]
            return self._pad(text, zero=False)
        if self.sharp and letter != "b":
            text = _with_point(text, letter, precision)
        if self.plus or text[0] != "+":
            if self.zero and self.width is not None and self.width > len(text):
                return text[0] + text[1:].rjust(self.width - 1, "0")
            return self._pad(text)
        return self._pad(text[1:])


def _rune(value: int) -> str:
    """A code point as a character; what is none is U+FFFD."""
    if not 0 <= value <= _LARGEST_RUNE or 0xD800 <= value < 0xE000:
        return "\ufffd"
    return chr(value)


def _in_base(value: int, base: int) -> str:
    return format(value, {2: "b", 8: "o", 10: "d", 16: "x"}[base])


def _with_point(text: str, letter: str, precision: int | None) -> str:
    """The flag `#` of a float: a point always, and for %g no trailing zero is taken away."""
    sign, body = text[0], text[1:]
    mark = next((char for char in ("p", "P") if char in body), "")
    if letter in "xX":
        head, _, tail = body.partition(mark)
        tail = mark + tail
    else:
        mark = next((char for char in ("e", "E") if char in body), "")
        head, _, tail = body.partition(mark) if mark else (body, "", "")
        tail = mark + tail
    wanted = 0
    if letter in "gGx":
        wanted = 6 if precision is None else precision
    # Go counts everything after leading zeros, the x of 0x1.8 included.
    wanted -= len(head.replace(".", "").lstrip("0"))
    if "." not in head:
        wanted -= head == "0"
        head += "."
    return sign + head + "0" * max(0, wanted) + tail
