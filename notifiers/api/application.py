"""From a request below /api/v2 to an answer."""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING

from notifiers.api import alerts
from notifiers.api.answers import RequestError, answered
from notifiers.api.silences import PREFIX, SilenceHandlers
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.http.message import Handler, Request, Response
    from notifiers.api.sources import RoutedAlerts
    from notifiers.api.status import Status
    from notifiers.silences.store import Silences

logger = logging.getLogger(__name__)

ROOT = "/api/v2/"


class AlertmanagerApi:
    """The routes. `clock` gives unix milliseconds; safe to call from several threads.

    An alert cannot be posted: alerts are what the rules say.
    """

    def __init__(
        self,
        sources: RoutedAlerts,
        silences: Silences,
        status: Status,
        receivers: Sequence[str],
        clock: Callable[[], int],
    ) -> None:
        own = SilenceHandlers(silences, clock)
        names = [{"name": name} for name in receivers]
        self._one_silence: dict[str, Handler] = {"GET": own.get, "DELETE": own.delete}
        self._routes: dict[str, dict[str, Handler]] = {
            "/api/v2/alerts": {"GET": lambda request: alerts.alerts(sources, request)},
            "/api/v2/alerts/groups": {"GET": lambda request: alerts.groups(sources, request)},
            "/api/v2/receivers": {"GET": lambda _: answered(names)},
            "/api/v2/silences": {"GET": own.listed, "POST": own.post},
            "/api/v2/status": {"GET": lambda _: answered(status.encode())},
        }

    def handle(self, request: Request) -> Response:
        """Answer; what is wrong with a request, or with the disk, is an answer too."""
        try:
            return self._handler(request)(request)
        except RequestError as error:
            return error.response()
        except StallwatchError as error:
            return RequestError(500, str(error)).response()
        except sqlite3.Error as error:
            logger.warning("answering %s failed: %s", request.path, error)
            return RequestError(500, f"the silences cannot be read or written: {error}").response()

    def _handler(self, request: Request) -> Handler:
        methods = self._routes.get(request.path)
        if request.path.startswith(PREFIX):
            methods = self._one_silence
        if methods is None:
            raise RequestError(404, f"path {request.path} was not found", code=404)
        method = "GET" if request.method == "HEAD" else request.method
        if method not in methods:
            allowed = tuple(methods)
            message = f"method {method} is not allowed, but [{','.join(allowed)}] are"
            raise RequestError(405, message, code=405, allow=allowed)
        return methods[method]
