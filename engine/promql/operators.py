"""What the binary operators do to two numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.series import BoolArray, Float64Array

Operation: TypeAlias = "Callable[[Float64Array, Float64Array], Float64Array]"
Comparison: TypeAlias = "Callable[[Float64Array, Float64Array], BoolArray]"

ARITHMETIC: Mapping[str, Operation] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    # The sign of the dividend, as Go's math.Mod.
    "%": np.fmod,
    "^": np.power,
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
