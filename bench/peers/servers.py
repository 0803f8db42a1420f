"""Prometheus and VictoriaMetrics with the data set in them, on free ports of the loopback."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from bench.peers.data import COUNTER, GAUGE, import_lines, write_as_openmetrics
from bench.peers.packages import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bench.peers.data import DataSet
    from bench.peers.packages import Programs

# No side may give up where the others go on.
PATIENCE_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Server:
    """One that answers Prometheus' query API."""

    name: str
    port: int
    pid: int
    parameters: tuple[tuple[str, str], ...] = ()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def query_range(self, expression: str, start_ms: int, end_ms: int, step_ms: int) -> bytes:
        """The answer's JSON, unread: reading it is not the server's work. Raises Failure."""
        parameters = {
            "query": expression,
            "start": f"{start_ms / 1000:.3f}",
            "end": f"{end_ms / 1000:.3f}",
            "step": f"{step_ms / 1000:g}",
            **dict(self.parameters),
        }
        return self.ask("POST", "/api/v1/query_range", urlencode(parameters).encode())

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Any request. Raises Failure for an answer that is no success."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
        if answer.status // 100 != 2:
            raise Failure(f"{self.name}: {path}: {answer.status} {text[:500].decode()}")
        return text


def matrix(answer: bytes) -> list[dict[str, Any]]:
    """The series of a range query's answer."""
    found: list[dict[str, Any]] = json.loads(answer)["data"]["result"]
    return found


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def running(name: str, command: Sequence[str], port: int, ready: str, log: Path) -> Iterator[int]:
    """A program from its readiness until the block ends; gives its process id."""
    with log.open("wb") as out:
        # A session of its own: Ctrl-C at the terminal reaches us, and we stop it in order.
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        probe = Server(name, port, process.pid)
        deadline = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError, Failure):
                probe.ask("GET", ready)
                break
            if process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
                raise Failure(f"{name} did not start:\n{tail}")
            time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def prometheus(programs: Programs, data: DataSet, folder: Path) -> Iterator[Server]:
    """The data as one block, whatever the span: the best that compaction can make of it."""
    text, store, config = folder / "data.om", folder / "prometheus", folder / "prometheus.yaml"
    write_as_openmetrics(data, text)
    command = [str(programs.promtool), "tsdb", "create-blocks-from", "openmetrics"]
    made = subprocess.run(
        [*command, "--max-block-duration=54h", "--quiet", str(text), str(store)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise Failure(f"promtool could not make blocks: {made.stderr[-500:]}")
    text.unlink()
    config.write_text("{}\n")
    port = free_port()
    flags = {
        "config.file": config,
        "storage.tsdb.path": store,
        "storage.tsdb.retention.time": "100y",
        "web.listen-address": f"127.0.0.1:{port}",
        "query.timeout": f"{PATIENCE_SECONDS}s",
        "query.max-samples": 500_000_000,
        "log.level": "warn",
    }
    given = [str(programs.prometheus), *(f"--{name}={value}" for name, value in flags.items())]
    with running("Prometheus", given, port, "/-/ready", folder / "prometheus.log") as pid:
        yield Server("Prometheus", port, pid)


@contextlib.contextmanager
def victoria(programs: Programs, data: DataSet, folder: Path) -> Iterator[Server]:
    """The data merged into as few parts as there can be; no cache of results."""
    port = free_port()
    flags = {
        "storageDataPath": folder / "victoria",
        "retentionPeriod": "100y",
        "httpListenAddr": f"127.0.0.1:{port}",
        "search.disableCache": "true",
        "search.maxQueryDuration": f"{PATIENCE_SECONDS}s",
        "search.maxPointsPerTimeseries": 100_000,
        "loggerLevel": "WARN",
    }
    given = [str(programs.victoria), *(f"-{name}={value}" for name, value in flags.items())]
    log = folder / "victoria.log"
    with running("VictoriaMetrics", given, port, "/health", log) as pid:
        server = Server("VictoriaMetrics", port, pid, (("nocache", "1"),))
        for body in import_lines((*data.counters, *data.gauges)):
            server.ask("POST", "/api/v1/import", body)
        server.ask("GET", "/internal/force_flush")
        server.ask("GET", "/internal/force_merge")
        _settle(server)
        yield server


def _settle(server: Server) -> None:
    """Until no merge runs any more: it would take the processors from whoever is timed."""
    deadline = time.monotonic() + 120
    quiet = 0
    while quiet < 3 and time.monotonic() < deadline:
        time.sleep(1)
        text = server.ask("GET", "/metrics").decode()
        merges = [line for line in text.splitlines() if line.startswith("vm_active_merges{")]
        busy = any(line.rpartition(" ")[2] != "0" for line in merges)
        quiet = 0 if busy else quiet + 1


def warm(server: Server, data: DataSet) -> None:
    """Read every sample once: files in the page cache, indexes loaded."""
    for name in (COUNTER, GAUGE):
        asked = f"sum(count_over_time({name}[5m]))"
        server.query_range(asked, data.start_ms, data.end_ms, 300_000)
