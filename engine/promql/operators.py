"""What the binary operators do to two numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.series import BoolArray, Float64Array

Operation: TypeAlias = "Callable[[Float64Array, Float64Array], Float64Array]"
Comparison: TypeAlias = "Callable[[Float64Array, Float64Array], BoolArray]"

# Go's math.Pow has these powers exact, and numpy only for some shapes of arrays.
_EXACT_POWERS: Mapping[float, Callable[[Float64Array], Float64Array]] = {
    2.0: np.square,
    -1.0: np.reciprocal,
    0.5: np.sqrt,
}


def power(base: Float64Array, exponent: Float64Array) -> Float64Array:
    """Base ^ exponent, the same bits for every shape of the arrays."""
    bases, exponents = (np.ascontiguousarray(one) for one in np.broadcast_arrays(base, exponent))
    result: Float64Array = np.power(bases, exponents)
    for number, exact in _EXACT_POWERS.items():
        where = exponents == number
        if where.any():
            # The root of -0 and of -Inf is no power of one half.
            where &= np.isfinite(bases) & (bases != 0) if number == 0.5 else True
            result = np.where(where, exact(bases), result)
    return result


ARITHMETIC: Mapping[str, Operation] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    # The sign of the dividend, as Go's math.Mod.
    "%": np.fmod,
    "^": power,
    "atan2": np.arctan2,
}

COMPARISONS: Mapping[str, Comparison] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}

SET_OPERATORS = ("and", "or", "unless")
