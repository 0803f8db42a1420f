"""Alerts, a real HTTP server that does as it is told, and deliveries over a real state.db."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from engine.alerts.alert import Alert, AlertState
from engine.config.model import Config, IntegrationConfig, ReceiverConfig
from engine.labels import Labels
from notifiers.backoff import Backoff
from notifiers.delivery import OutboxDelivery
from notifiers.integrations import integrations
from notifiers.origin import Origin
from notifiers.outbox import Outbox
from notifiers.routing.plan import Plan, everybody
from notifiers.worker import SendOptions, unix_ms
from tests.notifiers.mailbox import mailbox, serve_mail  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.state.file import StateFile
    from notifiers.entry import Entry, State

PATIENCE = 60.0
Reply = Callable[[BaseHTTPRequestHandler], None]


def firing(name: str = "TcpRetransmitSpike", **labels: str) -> Alert:
    return Alert(
        labels=Labels({"alertname": name, "task_id": "torchrun:job42", "node": "n1", **labels}),
        annotations={"summary": "Many retransmits", "runbook_url": "https://example.com/tcp"},
        state=AlertState.FIRING,
        value=12.5,
        active_at_ms=1_700_000_000_000,
        fired_at_ms=1_700_000_060_000,
        evidence=(
            {
                "rank": "0", "pid": 7, "comm": "python", "src": "10.0.0.1", "sport": 5000,
                "dst": "10.0.0.2", "dport": 6000, "retransmits": 12,
            },
        ),
        generator_url="http://127.0.0.1:9466/graph",
    )  # fmt: skip


def resolved(alert: Alert) -> Alert:
    return Alert(
        labels=alert.labels,
        annotations=alert.annotations,
        state=AlertState.RESOLVED,
        value=alert.value,
        active_at_ms=alert.active_at_ms,
        fired_at_ms=alert.fired_at_ms,
        resolved_at_ms=1_700_000_120_000,
        evidence=alert.evidence,
    )


def status(code: int, **headers: str) -> Reply:
    """A reply with a status and nothing else; `Retry_After` becomes `Retry-After`."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return reply


@dataclass
class Hook:
    """A webhook: `received` (header, body) in order; `replies` are used up, then it takes all.

    `lines`: the requests' first lines, `POST /hook HTTP/1.1`.
    """

    url: str
    lines: list[str] = field(default_factory=list)
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    always: Reply = field(default_factory=lambda: status(200))
    server: Any = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, count: int) -> list[tuple[dict[str, str], bytes]]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.received) >= count, PATIENCE)
            return list(self.received)

    def ids(self) -> list[str]:
        return [headers["Idempotency-Key"] for headers, _ in self.received]


@pytest.fixture
def make_hook() -> Iterator[Callable[[], Hook]]:
    servers = []

    def make() -> Hook:
        hook = Hook("")

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with hook.changed:
                    hook.lines.append(self.requestline)
                    hook.received.append((dict(self.headers.items()), body))
                    reply = hook.replies.pop(0) if hook.replies else hook.always
                    hook.changed.notify_all()
                reply(self)

            do_GET = do_POST  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        hook.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        hook.server = server
        return hook

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def hook(make_hook: Callable[[], Hook]) -> Hook:
    return make_hook()


def configured(**receivers: list[tuple[str, dict[str, Any]]]) -> Config:
    """A configuration by hand: receiver name to (kind, settings) pairs; all receivers are told."""
    return Config(
        receivers=tuple(
            ReceiverConfig(
                name=name,
                integrations=tuple(
                    IntegrationConfig(kind=kind, settings=own) for kind, own in ways
                ),
            )
            for name, ways in receivers.items()
        )
    )


@dataclass
class Agent:
    """A delivery and the database it shares with the alert state."""

    delivery: OutboxDelivery
    path: str

    def fire(self, *alerts: Alert) -> None:
        connection = sqlite3.connect(self.path, timeout=30)
        with connection:
            self.delivery.enqueue(connection, alerts)
        connection.close()
        self.delivery.wake()

    def rows(self, state: State) -> list[tuple[str, str, str]]:
        """(receiver, status, reason) of the rows in a state."""
        return [(entry.receiver, entry.status, entry.reason) for entry in self.entries(state)]

    def entries(self, state: State) -> list[Entry]:
        outbox = Outbox(self.path)
        try:
            return outbox.entries(state)
        finally:
            outbox.close()

    def settle(self, state: State, count: int) -> list[tuple[str, str, str]]:
        """Wait until so many rows are in a state."""
        for _ in range(int(PATIENCE / 0.02)):
            rows = self.rows(state)
            if len(rows) >= count:
                return rows
            time.sleep(0.02)
        raise AssertionError(f"{self.rows('pending')=} {self.rows('failed')=}")

    def await_sample(self, name: str, value: float, **labels: str) -> None:
        """A counter follows its row by a moment."""
        for _ in range(int(PATIENCE / 0.02)):
            if self.sample(name, **labels) == value:
                return
            time.sleep(0.02)
        raise AssertionError(f"{name} is {self.sample(name, **labels)}, not {value}")

    def await_rows(self, state: State, expected: list[tuple[str, str, str]]) -> None:
        """Wait until the rows of a state are these."""
        for _ in range(int(PATIENCE / 0.02)):
            if self.rows(state) == expected:
                return
            time.sleep(0.02)
        raise AssertionError(f"{self.rows(state)} are not {expected}")

    def settle_sample(self, name: str, expected: float, **labels: str) -> None:
        """Wait until a metric has a value."""
        for _ in range(int(PATIENCE / 0.02)):
            if self.sample(name, **labels) == expected:
                return
            time.sleep(0.02)
        raise AssertionError(f"{name} is {self.sample(name, **labels)}")

    def sample(self, name: str, **labels: str) -> float:
        return sum(
            value
            for own, pairs, _, value in self.delivery.samples()
            if own == name and labels.items() <= dict(pairs).items()
        )


@pytest.fixture
def make_agent(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    """`make_agent(config)`: a started delivery that is quick to try again."""
    agents: list[Agent] = []

    def make(
        config: Config,
        *,
        start: bool = True,
        name: str = "state.db",
        interval_ms: int = 50,
        state: StateFile | None = None,
    ) -> Agent:
        path = str(tmp_path / name) if state is None else state.path
        quick = Backoff(base_seconds=0.01, cap_seconds=0.05)
        options = SendOptions(quick, origin=Origin.of(config))
        names = [receiver.name for receiver in config.receivers]
        plan = Plan(everybody(names, interval_ms=interval_ms))
        delivery = OutboxDelivery(integrations(config), plan, state or path, options)
        agents.append(Agent(delivery, path))
        if start:
            delivery.start()
        return agents[-1]

    yield make
    for agent in agents:
        agent.delivery.stop(PATIENCE)


@pytest.fixture
def support() -> Any:
    """The helpers of this module, for tests (which cannot import a conftest)."""

    class Support:
        PATIENCE = PATIENCE
        unix_ms = staticmethod(unix_ms)
        firing = staticmethod(firing)
        resolved = staticmethod(resolved)
        status = staticmethod(status)
        configured = staticmethod(configured)

    return Support
