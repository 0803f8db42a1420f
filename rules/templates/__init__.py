"""Go's text/template with Prometheus' functions, as annotations and labels use it.

What only running a template needs is imported when it is first asked for; `expand` itself stands
in rules.templates.expand.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rules.templates.check import check_template
from rules.templates.errors import TemplateError

if TYPE_CHECKING:
    from rules.templates.uses import words_of
    from rules.templates.values import QueryFunction, Sample

__all__ = [
    "QueryFunction",
    "Sample",
    "TemplateError",
    "check_template",
    "words_of",
]

_PLACES = {
    "QueryFunction": "values",
    "Sample": "values",
    "words_of": "uses",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
