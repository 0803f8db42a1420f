"""The rule pack over the day, as Prometheus and vmalert do it.

Prometheus cannot replay alerts: the nearest is a range query for each rule and, over its answer,
the `for` clause. vmalert has `-replay`.
"""

from __future__ import annotations

import http.server
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bench.peers.agreement import key
from bench.peers.data import STEP_MS
from bench.peers.ours import PACK
from bench.peers.packages import Failure
from bench.peers.rows import NOTHING
from bench.peers.servers import PATIENCE_SECONDS, free_port, matrix
from engine.timestamps import format_rfc3339
from rules.loader import load_paths
from rules.model import AlertingRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bench.peers.data import DataSet
    from bench.peers.servers import Server
    from engine.series import Int64Array

# Alert's name, its series' labels, when it fired (unix milliseconds).
Firing: TypeAlias = tuple[str, tuple[tuple[str, str], ...], int]


def by_range_queries(server: Server, data: DataSet) -> tuple[float, list[Firing]]:
    """Seconds, and every alert that fired: a query for each rule, one after the other.

    What a recording rule finds is filtered away, so that no JSON of it is written or read.
    """
    rules = [rule for file in load_paths([PACK]) for group in file.groups for rule in group.rules]
    found: list[Firing] = []
    began = time.perf_counter()
    for rule in rules:
        text = rule.expression.text
        alerting = isinstance(rule, AlertingRule)
        asked = text if alerting else f"({text}) {NOTHING}"
        answer = matrix(server.query_range(asked, data.start_ms, data.end_ms, STEP_MS))
        if isinstance(rule, AlertingRule):
            for series in answer:
                times = np.rint([1000 * second for second, _ in series["values"]])
                fired = firings(times.astype(np.int64), rule.for_ms)
                found += [(rule.name, key(series["metric"]), time_ms) for time_ms in fired]
    return time.perf_counter() - began, sorted(found)


def firings(times_ms: Int64Array, for_ms: int) -> list[int]:
    """When an alert fires whose expression holds at `times_ms`, int64[N], increasing.

    It is pending from the first of consecutive steps and fires once `for` has passed.
    """
    starts = np.flatnonzero(np.diff(times_ms, prepend=times_ms[0] - 2 * STEP_MS) > STEP_MS)
    ends = np.append(starts[1:], times_ms.size) - 1
    due = times_ms[starts] + -(-for_ms // STEP_MS) * STEP_MS
    fired: list[int] = due[due <= times_ms[ends]].tolist()
    return fired


def of_report(alerts: Sequence[Mapping[str, Any]]) -> list[Firing]:
    """The same of a dry-run's JSON, less the labels that the rule adds."""
    return sorted(
        (
            alert["alertname"],
            key({k: v for k, v in alert["labels"].items() if k not in {"alertname", "severity"}}),
            round(1000 * alert["fired_at"]),
        )
        for alert in alerts
    )


def by_vmalert(vmalert: Path, server: Server, data: DataSet) -> float:
    """Seconds of `vmalert -replay`; what it writes is received and thrown away."""
    with _sink() as sink:
        flags = {
            "rule": PACK,
            "datasource.url": server.url,
            "datasource.queryStep": f"{STEP_MS // 1000}s",
            "remoteWrite.url": sink,
            "remoteWrite.maxQueueSize": 100_000_000,
            "replay.timeFrom": format_rfc3339(data.start_ms),
            "replay.timeTo": format_rfc3339(data.end_ms),
            # One request a rule, and no pause after it (a second by default).
            "replay.maxDatapointsPerQuery": 1_000_000,
            "replay.rulesDelay": "0s",
            "replay.disableProgressBar": "true",
            "httpListenAddr": f"127.0.0.1:{free_port()}",
            "loggerLevel": "WARN",
        }
        command = [str(vmalert), *(f"-{name}={value}" for name, value in flags.items())]
        began = time.perf_counter()
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )
        seconds = time.perf_counter() - began
    if done.returncode or "error" in done.stderr:
        raise Failure(f"vmalert failed: {done.stderr[-1000:]}")
    return seconds


@contextmanager
def _sink() -> Iterator[str]:
    """The URL of a receiver of remote writes that keeps nothing."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Swallow)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Swallow(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""
