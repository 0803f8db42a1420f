"""Go's fmt: how values print, and the verbs of printf. https://pkg.go.dev/fmt."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

from rules.templates.errors import TemplateError
from rules.templates.values import Sample, Struct, type_name

_VERB = re.compile(r"%([-+# 0]*)(\*|[0-9]+)?(?:\.(\*|[0-9]*))?(.)?", re.DOTALL)
WIDEST = 10_000


def sprint(values: tuple[Any, ...]) -> str:
    """fmt.Sprint: a space between operands when neither is a string."""
    out = ""
    for index, value in enumerate(values):
        if index and not isinstance(value, str) and not isinstance(values[index - 1], str):
            out += " "
        out += show(value)
    return out


def show(value: Any) -> str:
    """The verb %v."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case float():
            return shortest(value)
        case dict():
            return "map[" + " ".join(f"{k}:{show(v)}" for k, v in sorted(value.items())) + "]"
        case list():
            return "[" + " ".join(show(item) for item in value) + "]"
        case Sample(labels=labels, value=number):
            return "{" + f"{show(labels)} {show(number)}" + "}"
        case Struct(fields=fields):
            return "{" + " ".join(show(item) for item in fields.values()) + "}"
        case _:
            return str(value)


def shortest(value: float) -> str:
    """%v of a float: the fewest digits; an exponent below 1e-4 and from 1e+06 on."""
    if special := _special(value):
        return special
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    power = len(text) - 1 + int(exponent)
    minus = "-" if sign else ""
    if power < -4 or power >= 6:
        return minus + _scientific(text, power)
    return minus + format(Decimal(text).scaleb(int(exponent)), "f")


def _scientific(digits: str, power: int) -> str:
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return ""


def general(value: float, digits: int = 4) -> str:
    """%.4g, as the humanize functions use it."""
    return _special(value) or f"{value:.{digits}g}"


def sprintf(text: str, arguments: tuple[Any, ...]) -> str:
    """fmt.Sprintf. What does not fit prints Go's `%!verb(type=value)`, it never fails."""
    rest = list(arguments)

    def number(word: str | None) -> int | None:
        if word == "*":
            taken = rest.pop(0) if rest else 0
            return taken if isinstance(taken, int) else 0
        return int(word or 0) if word is not None else None

    def replace(match: re.Match[str]) -> str:
        flags, width_text, precision_text, verb = match.groups()
        if verb is None:
            return "%!(NOVERB)"
        width, precision = number(width_text), number(precision_text)
        if max(width or 0, precision or 0) > WIDEST:
            raise TemplateError(f"printf: a width above {WIDEST}")
        if verb == "%":
            return "%"
        if not rest:
            return f"%!{verb}(MISSING)"
        return _verb(flags, width, precision, verb, rest.pop(0))

    out = _VERB.sub(replace, text)
    if rest:
        extra = ", ".join(
            "<nil>" if value is None else f"{type_name(value)}={show(value)}" for value in rest
        )
        out += f"%!(EXTRA {extra})"
    return out


def _verb(flags: str, width: int | None, precision: int | None, verb: str, value: Any) -> str:
    body = _body(flags, precision, verb, value)
    if body is None:
        return "%!" + verb + ("(<nil>)" if value is None else f"({type_name(value)}={show(value)})")
    if width is None or len(body) >= width:
        return body
    if "-" in flags:
        return body.ljust(width)
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if "0" in flags and numeric and math.isfinite(value) and verb in "vdfFeEgGxXob":
        return body.zfill(width)
    return body.rjust(width)


def _body(flags: str, precision: int | None, verb: str, value: Any) -> str | None:
    """The text of a value without its padding, None when the verb does not fit its type."""
    if verb == "v":
        if isinstance(value, float) and precision is not None:
            return _signed(flags, general(value, max(precision, 1)))
        text = show(value)
        return _signed(flags, text) if _is_number(value) else text
    if verb == "T":
        return type_name(value)
    if isinstance(value, bool):
        return show(value) if verb == "t" else None
    if isinstance(value, str):
        return _string(precision, verb, value)
    if isinstance(value, int):
        return _integer(flags, verb, value)
    if isinstance(value, float):
        return _float(flags, precision, verb, value)
    if verb == "s" and isinstance(value, dict | list):
        return show(value)
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _signed(flags: str, text: str) -> str:
    if text.startswith(("-", "+")):
        return text if "+" in flags or not text.startswith("+") or text == "+Inf" else text[1:]
    if "+" in flags:
        return "+" + text
    return " " + text if " " in flags else text


def _string(precision: int | None, verb: str, value: str) -> str | None:
    cut = value if precision is None else value[:precision]
    match verb:
        case "s":
            return cut
        case "q":
            return quoted(cut)
        case "x" | "X":
            digits = cut.encode().hex()
            return digits.upper() if verb == "X" else digits
        case _:
            return None


def quoted(value: str) -> str:
    """strconv.Quote."""
    named = {
        "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
        '"': '\\"', "\\": "\\\\",
    }  # fmt: skip
    out = []
    for char in value:
        code = ord(char)
        if char in named:
            out.append(named[char])
        elif char.isprintable():
            out.append(char)
        else:
            out.append(f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}")
    return '"' + "".join(out) + '"'


def _integer(flags: str, verb: str, value: int) -> str | None:
    match verb:
        case "d" | "b" | "o" | "x" | "X":
            prefix = "#" if "#" in flags and verb in "xX" else ""
            return _signed(flags, format(value, prefix + verb))
        case "c":
            return chr(value) if 0 <= value <= 0x10FFFF else "\ufffd"
        case "q":
            return f"'{chr(value)}'" if 0 <= value <= 0x10FFFF else "'\ufffd'"
        case "U":
            return f"U+{value:04X}"
        case _:
            return None


def _float(flags: str, precision: int | None, verb: str, value: float) -> str | None:
    if verb in "fFeEgG":
        special = _special(value)
        if special:
            return _signed(flags, special)
        if verb in "gG" and precision is None:
            text = shortest(value)
            return _signed(flags, text.upper() if verb == "G" else text)
        digits = 6 if precision is None else precision
        return _signed(flags, format(value, f".{digits}{verb}"))
    if verb in "xX":
        mantissa, _, power = value.hex().partition("p")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        text = f"{mantissa}p{power[0]}{int(power[1:]):02d}"
        return _signed(flags, text.upper() if verb == "X" else text)
    return None
