"""One webhook on the loopback for all sides: who tells what to which receiver is in the path."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Told:
    """One message, at a time in unix seconds. Alerts by their labels, as sorted text."""

    at: float
    firing: frozenset[str]
    resolved: frozenset[str]

    def __str__(self) -> str:
        alerts = [f"+{each}" for each in sorted(self.firing)]
        return ", ".join(alerts + [f"-{each}" for each in sorted(self.resolved)])


# Receiver and group key.
Key = tuple[str, str]


@dataclass(slots=True)
class Hook:
    """`told`: by side, then by key, in the order of arrival."""

    url: str
    told: dict[str, dict[Key, list[Told]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, path: str, body: bytes, at: float) -> None:
        """A request to `/SIDE/RECEIVER`."""
        _, side, receiver = path.split("/")
        message = json.loads(body)
        by_status: dict[str, set[str]] = {"firing": set(), "resolved": set()}
        for alert in message["alerts"]:
            by_status[alert["status"]].add(name_of(alert["labels"]))
        told = Told(at, frozenset(by_status["firing"]), frozenset(by_status["resolved"]))
        with self.lock:
            keys = self.told.setdefault(side, {})
            keys.setdefault((receiver, message["groupKey"]), []).append(told)


def name_of(labels: dict[str, str]) -> str:
    """An alert by its labels, readable."""
    rest = [f"{name}={value}" for name, value in sorted(labels.items()) if name != "alertname"]
    return f"{labels['alertname']}({' '.join(rest)})"


@contextmanager
def listening() -> Iterator[Hook]:
    """A hook that takes everything, until the end of the block."""
    hook = Hook("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            at = time.time()
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            hook.take(self.path, body, at)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        hook.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield hook
        finally:
            server.shutdown()
            thread.join()
