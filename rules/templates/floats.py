"""Floats as text, as Go's strconv.FormatFloat writes them. https://pkg.go.dev/strconv."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

# Bits behind the point of a float64, and the exponents of its smallest and subnormal numbers.
_FRACTION_BITS = 52
_SMALLEST_POWER = -1022


def format_float(value: float, verb: str, precision: int | None) -> str:
    """The forms e, E, f, g, G, b, x and X. A sign stands only before what is negative or `+Inf`.

    `precision` None: as many digits as it takes to read the value back.
    """
    found = _special(value)
    if found:
        return found
    match verb:
        case "e" | "E":
            text = _exponential(value) if precision is None else f"{value:.{precision}e}"
        case "f":
            text = format(Decimal(repr(value)), "f").removesuffix(".0")
            text = text if precision is None else f"{value:.{precision}f}"
        case "g" | "G":
            text = shortest(value) if precision is None else f"{value:.{max(precision, 1)}g}"
        case "b":
            return _binary(value)
        case _:
            text = _hexadecimal(value, precision)
    return text.upper() if verb in "EGX" else text


def shortest(value: float) -> str:
    """%v of a float: the fewest digits; an exponent below 1e-4 and from 1e+06 on."""
    if found := _special(value):
        return found
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    power = len(text) - 1 + int(exponent)
    minus = "-" if sign else ""
    if power < -4 or power >= 6:
        return minus + _with_power(text, power)
    return minus + format(Decimal(text).scaleb(int(exponent)), "f")


def general(value: float, digits: int = 4) -> str:
    """%.4g, as the humanize functions use it."""
    return _special(value) or f"{value:.{digits}g}"


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return ""


def _exponential(value: float) -> str:
    """The shortest form with an exponent."""
    if value == 0:
        return "-0e+00" if math.copysign(1, value) < 0 else "0e+00"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    return ("-" if sign else "") + _with_power(text, len(text) - 1 + int(exponent))


def _with_power(digits: str, power: int) -> str:
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _parts(value: float) -> tuple[str, int, int]:
    """Sign, mantissa with 52 bits behind its point, and power of two; subnormals as they are."""
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return sign, 0, _SMALLEST_POWER
    power = max(math.frexp(value)[1] - 1, _SMALLEST_POWER)
    return sign, int(Fraction(abs(value)) * Fraction(2) ** (_FRACTION_BITS - power)), power


def _binary(value: float) -> str:
    sign, mantissa, power = _parts(value)
    exponent = power - _FRACTION_BITS
    return f"{sign}{mantissa}p{'-' if exponent < 0 else '+'}{abs(exponent)}"


def _hexadecimal(value: float, precision: int | None) -> str:
    sign, mantissa, power = _parts(value)
    if mantissa:
        # Unlike C, Go writes subnormal numbers with a leading 1, too.
        shift = _FRACTION_BITS + 1 - mantissa.bit_length()
        mantissa, power = mantissa << shift, power - shift
    else:
        power = 0
    if precision is not None and precision < 13:
        mantissa, power = _rounded(mantissa, power, precision)
    lead, digits = mantissa >> _FRACTION_BITS, f"{mantissa & ((1 << _FRACTION_BITS) - 1):013x}"
    digits = digits.rstrip("0") if precision is None else digits[:precision].ljust(precision, "0")
    point = "." if digits else ""
    return f"{sign}0x{lead}{point}{digits}p{'-' if power < 0 else '+'}{abs(power):02d}"


def _rounded(mantissa: int, power: int, digits: int) -> tuple[int, int]:
    """To so many hexadecimal digits, half to even."""
    dropped = _FRACTION_BITS - 4 * digits
    kept, rest = mantissa >> dropped, mantissa & ((1 << dropped) - 1)
    half = 1 << (dropped - 1)
    if rest > half or (rest == half and kept & 1):
        kept += 1
    mantissa = kept << dropped
    if mantissa >> (_FRACTION_BITS + 1):
        return mantissa >> 1, power + 1
    return mantissa, power
