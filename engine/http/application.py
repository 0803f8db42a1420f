"""From a request to a response: which path does what, and every error as an answer."""

from __future__ import annotations

import logging
import platform
import re
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING

from engine.http import rule_status, series_metadata
from engine.http.exposition import Exposition
from engine.http.message import FORM, ApiError, Request, Response, failure, plain, success
from engine.http.paths import EXPLAIN
from engine.http.queries import Queries

if TYPE_CHECKING:
    from engine.http.message import Handler
    from engine.http.sources import Sources

_LABEL_VALUES = re.compile(r"/api/v1/label/[^/]+/values")
logger = logging.getLogger(__name__)

INDEX = """<!doctype html>
<html lang="en"><title>stallwatch</title><h1>stallwatch</h1>
<ul><li><a href="metrics">metrics</a><li><a href="api/v1/alerts">alerts</a>
<li><a href="api/v1/rules">rules</a><li><a href="-/ready">ready</a></ul></html>
"""


class Application:
    """The routes over one `Sources`. Knows nothing of sockets."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        exposition = Exposition(sources)
        queries = Queries(sources)
        self._mounted = sources.mounted()
        self._routes: dict[str, tuple[frozenset[str], Handler]] = {
            "/": (_GET, _index),
            "/metrics": (_GET, lambda request: exposition.render(request.accept)),
            "/-/healthy": (_GET, lambda _: plain(200, "stallwatch is healthy.")),
            "/-/ready": (_GET, self._ready),
            "/api/v1/alerts": (_GET, lambda request: rule_status.alerts(sources, request)),
            "/api/v1/rules": (_GET, lambda request: rule_status.rules(sources, request)),
            EXPLAIN: (_GET, queries.explained),
            "/api/v1/query": (_GET_POST, queries.instant),
            "/api/v1/query_range": (_GET_POST, queries.over_range),
            "/api/v1/series": (_GET_POST, lambda one: series_metadata.series(sources, one)),
            "/api/v1/labels": (_GET_POST, lambda one: series_metadata.labels(sources, one)),
            "/api/v1/metadata": (_GET, lambda _: success({})),
            "/api/v1/status/buildinfo": (_GET, _build_information),
            "/api/v1/status/probes": (_GET, self._probes),
        }

    def handle(self, request: Request) -> Response:
        """Answer; whatever goes wrong becomes an answer too, never an exception."""
        for prefix, handler in self._mounted.items():
            if request.path.startswith(prefix):
                return _answer(handler, request)
        methods, handler = self._route(request.path)
        if request.method not in methods:
            allowed = ", ".join(sorted(methods))
            answer = plain(405, f"{request.method} is not for {request.path}; try {allowed}")
            return Response(405, answer.body, answer.content_type, (("Allow", allowed),))
        if request.body:
            return failure("bad_data", f"a body must be {FORM}")
        return _answer(handler, request)

    def _route(self, path: str) -> tuple[frozenset[str], Handler]:
        if _LABEL_VALUES.fullmatch(path):
            return _GET, lambda request: series_metadata.label_values(self._sources, request)
        return self._routes.get(path, (_GET_POST, _not_found))

    def _probes(self, _request: Request) -> Response:
        return success([asdict(status) for status in self._sources.probe_statuses()])

    def _ready(self, _request: Request) -> Response:
        reason = self._sources.unready()
        if reason:
            return plain(503, f"stallwatch is not ready: {reason}")
        return plain(200, "stallwatch is ready.")


_GET = frozenset({"GET", "HEAD"})
_GET_POST = frozenset({"GET", "HEAD", "POST"})


def _answer(handler: Handler, request: Request) -> Response:
    try:
        return handler(request)
    except ApiError as error:
        return failure(error.error_type, str(error))
    except Exception:
        # The agent goes on; the log has the details, the client no stack trace.
        logger.exception("answering %s failed", request.path)
        return failure("internal", "internal error, see the agent's log")


def _index(_request: Request) -> Response:
    return Response(200, INDEX.encode(), "text/html; charset=utf-8")


def _not_found(request: Request) -> Response:
    if request.path.startswith("/api/"):
        return failure("not_found", f"there is nothing at {request.path}")
    return plain(404, f"there is nothing at {request.path}")


def _build_information(_request: Request) -> Response:
    return success(
        {
            "application": "stallwatch",
            "version": version("stallwatch"),
            "revision": "",
            "branch": "",
            "buildUser": "",
            "buildDate": "",
            "goVersion": "",
            "pythonVersion": platform.python_version(),
        }
    )
