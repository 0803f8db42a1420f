"""What to write instead, by what is wrong: syntax, types, or the text itself.

The modules are imported when the first one is asked for, since most expressions are right.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rules.promql.hints import expressions, foreign, labels, mends, ranges

__all__ = ["expressions", "foreign", "labels", "mends", "ranges"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
