"""`/api/v1/series`, `/api/v1/labels` and `/api/v1/label/<name>/values`: what Grafana completes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.http.message import ApiError, Response, parse_errors, success
from engine.labels import METRIC_NAME
from rules.promql.ast import Matcher, VectorSelector
from rules.promql.parser import parse
from rules.source import ProblemsError, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.http.message import Request
    from engine.http.sources import Sources
    from engine.labels import Labels

_EVERYTHING = (Matcher(Span(0, 0), METRIC_NAME, "=~", ".+"),)
MAX_SELECTORS = 100


def series(sources: Sources, request: Request) -> Response:
    """The label sets of all series that any `match[]` selects between `start` and `end`."""
    if not request.parameters.get("match[]"):
        raise ApiError("bad_data", "no match[] parameter provided")
    found = sorted(set(_selected(sources, request)))
    return _limited(request, [labels.to_dict() for labels in found])


def labels(sources: Sources, request: Request) -> Response:
    """The label names of the selected series, of all series without `match[]`."""
    return _limited(
        request, sorted({name for one in _selected(sources, request) for name, _ in one})
    )


def label_values(sources: Sources, request: Request) -> Response:
    """The values that one label takes in the selected series."""
    name = request.path.removeprefix("/api/v1/label/").removesuffix("/values")
    values = {one.get(name) for one in _selected(sources, request)} - {""}
    return _limited(request, sorted(values))


def _limited(request: Request, found: list[str] | list[dict[str, str]]) -> Response:
    limit = request.count("limit")
    if limit and len(found) > limit:
        return success(found[:limit], ("results truncated due to limit",))
    return success(found)


def _selected(sources: Sources, request: Request) -> Iterator[Labels]:
    start_ms = request.time_ms("start", 0)
    end_ms = request.time_ms("end", time.time_ns() // 1_000_000)
    if end_ms < start_ms:
        message = 'invalid parameter "end": end timestamp must not be before start timestamp'
        raise ApiError("bad_data", message)
    texts = request.parameters.get("match[]", ())
    if len(texts) > MAX_SELECTORS:
        raise ApiError("bad_data", f'invalid parameter "match[]": more than {MAX_SELECTORS}')
    selectors = [_matchers(text) for text in texts] or [_EVERYTHING]
    for matchers in selectors:
        for one in sources.queryable.select(matchers, start_ms, end_ms):
            yield one.labels


def _matchers(text: str) -> tuple[Matcher, ...]:
    try:
        tree = parse(text)
    except ProblemsError as error:
        message = f'invalid parameter "match[]": {parse_errors(error)}'
        raise ApiError("bad_data", message) from error
    if not isinstance(tree, VectorSelector) or tree.offset is not None or tree.at is not None:
        message = f'invalid parameter "match[]": "{text}" is not a series selector'
        raise ApiError("bad_data", message)
    return tree.matchers
