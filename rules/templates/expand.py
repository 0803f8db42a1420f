"""A rule's template, run for one alert."""

from __future__ import annotations

import urllib.parse
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from rules.slotted import dataclass, field
from rules.templates.check import read
from rules.templates.errors import TemplateError
from rules.templates.functions import FUNCTIONS
from rules.templates.machine import Run, Surroundings
from rules.templates.values import Sample, Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from rules.source import Span
    from rules.templates.values import QueryFunction

    Given: TypeAlias = Callable[[Run, Span, tuple[Any, ...]], Any]

# What a query counts as.
QUERY_STEPS = 100

_parsed = lru_cache(maxsize=1024)(read)


@dataclass(frozen=True, slots=True)
class TemplateData:
    """What a rule's templates see: the sample's labels and value, who is speaking, and when.

    `time_ms`: of the evaluation, unix milliseconds; None: nobody will ask.
    """

    labels: dict[str, str]
    value: float
    external_labels: dict[str, str] = field(default_factory=dict)
    external_url: str = ""
    time_ms: int | None = None


def expand(text: str, data: TemplateData, query: QueryFunction | None = None) -> str:
    """The text of a template for one alert.

    `query` evaluates an expression now. Raises TemplateError, its span in `text`.
    """
    if "{{" not in text:
        return text
    try:
        template = _parsed(text)
    except RecursionError:
        raise TemplateError("nested too deeply") from None
    return Run(template, _surroundings(data, query)).text()


def _surroundings(data: TemplateData, query: QueryFunction | None) -> Surroundings:
    """What Prometheus defines in front of every template of a rule."""
    value = float(data.value)
    root = Struct({
        "Labels": data.labels,
        "ExternalLabels": data.external_labels,
        "ExternalURL": data.external_url,
        "Value": value,
    })  # fmt: skip
    variables = (
        ("$labels", data.labels),
        ("$externalLabels", data.external_labels),
        ("$externalURL", data.external_url),
        ("$value", value),
    )
    given: dict[str, Given] = {
        "query": partial(_query, query),
        "externalURL": _plain("externalURL", lambda: data.external_url),
        "pathPrefix": _plain("pathPrefix", lambda: urllib.parse.urlsplit(data.external_url).path),
        "now": _plain("now", lambda: _now(data)),
    }
    return Surroundings(root, FUNCTIONS, variables, given)


def _plain(name: str, answer: Callable[[], Any]) -> Given:
    def given(run: Run, span: Span, arguments: tuple[Any, ...]) -> Any:  # noqa: ARG001 - every given function's
        if arguments:
            raise TemplateError(f"{name} takes no arguments")
        return answer()

    return given


def _now(data: TemplateData) -> float:
    if data.time_ms is None:
        raise TemplateError("now cannot be used here")
    return data.time_ms / 1000


def _query(
    query: QueryFunction | None, run: Run, span: Span, arguments: tuple[Any, ...]
) -> list[Sample]:
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise TemplateError("query needs one expression, a string")
    if query is None:
        raise TemplateError("query cannot be used here")
    run.charge(span, QUERY_STEPS)
    return list(query(arguments[0]))
