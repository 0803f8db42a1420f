"""`/api/v1/query` and `/api/v1/query_range` (web/api/v1/api.go in Prometheus), and our own
`/api/v1/explain`.
"""  # noqa: D205 - one sentence

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.alerts.fingerprint import fingerprint
from engine.explanation.explaining import explain
from engine.http.message import ApiError, Response, parse_errors, success
from engine.promql.json_encoding import encode
from engine.promql.value import Axis, Matrix, String
from rules.errors import StallwatchError
from rules.source import ProblemsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.http.message import Request
    from engine.http.sources import Sources
    from engine.promql.value import Result

# Prometheus' own bound: a wider answer is of no use to any screen.
MAX_POINTS = 11_000
MAX_EXPRESSION_CHARACTERS = 100_000


class Queries:
    """Evaluates a few at a time, so that a dashboard never starves the rules."""

    def __init__(self, sources: Sources, concurrency: int = 2, wait_seconds: float = 30.0) -> None:
        self._sources = sources
        self._slots = threading.BoundedSemaphore(concurrency)
        self._wait_seconds = wait_seconds

    def instant(self, request: Request) -> Response:
        """`query`, `time` (now when missing), `timeout`, `limit`."""
        limit = request.count("limit")
        axis = Axis.instant(request.time_ms("time", time.time_ns() // 1_000_000))
        return self._answer(request, axis, limit)

    def over_range(self, request: Request) -> Response:
        """`query`, `start`, `end`, `step`, `timeout`, `limit`."""
        limit = request.count("limit")
        start_ms = request.time_ms("start")
        end_ms = request.time_ms("end")
        if end_ms < start_ms:
            message = 'invalid parameter "end": end timestamp must not be before start time'
            raise ApiError("bad_data", message)
        step_ms = request.duration_ms("step")
        if step_ms <= 0:
            message = (
                'invalid parameter "step": zero or negative query resolution step widths are not '
                "accepted. Try a positive integer"
            )
            raise ApiError("bad_data", message)
        if (end_ms - start_ms) // step_ms > MAX_POINTS:
            message = (
                "exceeded maximum resolution of 11,000 points per timeseries. "
                "Try decreasing the query resolution (?step=XX)"
            )
            raise ApiError("bad_data", message)
        return self._answer(request, Axis.span(start_ms, end_ms, step_ms), limit)

    def explained(self, request: Request) -> Response:
        """`fingerprint` of an active alert; `panels`: with the last hour, to be drawn."""
        wanted = request.text("fingerprint")
        alerts = self._sources.alerts()
        alert = next((one for one in alerts if fingerprint(one.labels) == wanted), None)
        if alert is None:
            raise ApiError("not_found", "stallwatch: this alert does not fire any more")
        with_panels = request.text("panels") in {"true", "1", "t"}
        with self._slot(self._wait_seconds):
            try:
                found = explain(alert, self._sources.grounds(), with_panels=with_panels)
            except StallwatchError as error:
                raise ApiError("execution", str(error)) from error
        return success(found)

    @contextmanager
    def _slot(self, wait_seconds: float) -> Iterator[None]:
        if not self._slots.acquire(timeout=wait_seconds):
            raise ApiError("timeout", "query timed out while waiting for other queries to end")
        try:
            yield
        finally:
            self._slots.release()

    def _answer(self, request: Request, axis: Axis, limit: int) -> Response:
        wait_seconds = self._wait_seconds
        if request.text("timeout"):
            wait_seconds = min(wait_seconds, max(0, request.duration_ms("timeout")) / 1000)
        expression = request.text("query")
        if len(expression) > MAX_EXPRESSION_CHARACTERS:
            message = (
                f'invalid parameter "query": longer than {MAX_EXPRESSION_CHARACTERS} characters'
            )
            raise ApiError("bad_data", message)
        with self._slot(wait_seconds):
            result = self._evaluate(expression, axis)
            data = encode(result, axis)
        warnings = result.warnings
        if limit and isinstance(data["result"], list) and data["resultType"] in LIMITED:
            if len(data["result"]) > limit:
                warnings = (*warnings, "results truncated due to limit")
            data["result"] = data["result"][:limit]
        return success(data, warnings, result.infos)

    def _evaluate(self, expression: str, axis: Axis) -> Result:
        try:
            result = self._sources.query(expression, axis)
        except ProblemsError as error:
            raise ApiError(
                "bad_data", f'invalid parameter "query": {parse_errors(error)}'
            ) from error
        except ApiError:
            raise
        except StallwatchError as error:
            raise ApiError("execution", str(error)) from error
        if axis.step_ms and isinstance(result.value, String | Matrix):
            kind = "string" if isinstance(result.value, String) else "range vector"
            message = (
                f'invalid parameter "query": invalid expression type "{kind}" for range query, '
                "must be Scalar or instant Vector"
            )
            raise ApiError("bad_data", message)
        return result


LIMITED = frozenset({"vector", "matrix"})
