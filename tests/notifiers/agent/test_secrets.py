"""What a receiver's configuration keeps secret is seen nowhere, whether the receiver fails or not.

A real agent, at the level of logs that says most, tells a webhook, a second one, a mail server and
Slack itself as far as it can tell: in its mount namespace /etc/hosts names a server of ours.
"""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import socket
import sqlite3
import sys
import threading
import time
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
import requests
from aiosmtpd.smtp import AuthResult

from engine.cli.main import main
from tests.notifiers.faults import Authority
from tests.notifiers.slack_api import API, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 60.0
# How aiosmtpd lets one log in, each of which is tried.
WAYS = ("LOGIN", "PLAIN")
URL_TOKEN, HMAC, BEARER = "url-t0ken-7f3e91", "hmac-s3cret-55aa12", "bearer-9c41d7e2"
PASSWORD, SLACK = "smtp-pa55word-1188", "xoxb-1234567890-1234567890-S3cretTail"
# As `stallwatch run`, but that everything is logged.
VERBOSE = (
    "import logging, sys; logging.basicConfig(stream=sys.stderr, level=logging.DEBUG);"
    " from engine.cli.main import main; sys.exit(main())"
)
IN_NAMESPACE = 'mount --bind "$0" /etc/hosts && exec "$@"'
PATHS = (
    "/", "/metrics", "/-/healthy", "/-/ready", "/no/such/path", "/api/v1/alerts", "/api/v1/rules",
    "/api/v1/query?query=up", "/api/v1/query_range?query=1&start=1&end=2&step=1",
    "/api/v1/series?match[]=up", "/api/v1/labels", "/api/v1/label/alertname/values",
    "/api/v1/metadata", "/api/v1/status/buildinfo", "/api/v1/status/probes",
    "/api/v1/explain?alertname=Slow", "/api/v1/notify/messages?id=0", "/api/v2/alerts",
    "/api/v2/alerts/groups", "/api/v2/receivers", "/api/v2/silences", "/api/v2/status",
)  # fmt: skip
COMMANDS = (
    ("notify", "pending"), ("notify", "dead"), ("notify", "dead", "--resend", "--all"),
    ("notify", "test"), ("notify", "route", "alertname=Slow"), ("notify", "route", "--tree"),
    ("alerts",), ("silence", "list"), ("doctor",),
)  # fmt: skip


def spelt(secret: str) -> set[str]:
    """As it may be written: as it is, for a URL, for a login by mail."""
    logins = (f"\0me\0{secret}", secret)
    return {secret, quote(secret, safe="")} | {
        base64.b64encode(one.encode()).decode().rstrip("=") for one in logins
    }


SECRETS = set[str]().union(*map(spelt, (URL_TOKEN, HMAC, BEARER, PASSWORD, SLACK)))


def shown_in(text: str) -> list[str]:
    return [one for one in SECRETS if one in text]


@pytest.fixture
def slack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Workspace, Path]]:
    """Slack, and a file of hosts that names it; its certificate verifies."""
    if os.geteuid() != 0:
        pytest.skip("a mount namespace needs root")
    if shutil.which("openssl") is None or shutil.which("unshare") is None:
        pytest.skip("openssl or unshare is not installed")
    workspace = Workspace()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            workspace.answer(self, self.rfile.read(int(self.headers["Content-Length"])))

        def log_message(self, *args: object) -> None:
            pass

    draw = random.SystemRandom()
    address = ".".join(["127", *(str(draw.randrange(1, 255)) for _ in range(3))])
    server = ThreadingHTTPServer((address, 443), Handler)
    server.daemon_threads = True
    authority = Authority(tmp_path)
    context = authority.context("slack", f"DNS:{API}")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    # Commands in this process must not ask the real one either.
    whole = socket.getaddrinfo

    def resolve(name: Any, *given: Any, **named: Any) -> Any:
        return whole(address if name == API else name, *given, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.file))
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{address} {API}\n")
    yield workspace, hosts
    server.shutdown()
    server.server_close()


@pytest.fixture
def logins(mailbox: Any, serve_mail: Callable[..., str]) -> tuple[str, list[bytes]]:
    """Where a mail server is that refuses the first login, and the passwords it was given."""
    given: list[bytes] = []

    def check(_server: Any, _session: Any, _envelope: Any, _kind: Any, data: Any) -> AuthResult:
        given.append(data.password)
        return AuthResult(success=len(given) > len(WAYS), handled=False)

    where = serve_mail(auth_require_tls=False, auth_required=True, authenticator=check)
    return where, given


def processes_below(pid: int) -> set[int]:
    """All that a process has started and that has not ended."""
    found: set[int] = set()
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            own = {int(one) for one in children.read_text().split()}
        except OSError:
            continue
        found |= own.union(*map(processes_below, own))
    return found


class Watch:
    """Reads the command line and the environment of each process that an agent starts."""

    def __init__(self, agent: Any) -> None:
        self.seen: dict[int, str] = {}
        self._agent, self._over = agent, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.005):
            agent = Path(f"/proc/{self._agent.pid}")
            for pid in processes_below(self._agent.pid):
                own = Path(f"/proc/{pid}")
                try:
                    # Who has set the namespace up is none of the agent's.
                    if (agent / "exe").readlink() != Path("/proc/self/exe").readlink():
                        break
                    command = (own / "cmdline").read_bytes()
                    # A fork that runs no program of its own yet is the agent in all it shows, and
                    # one that has ended shows nothing.
                    if command in {b"", (agent / "cmdline").read_bytes()}:
                        continue
                    environment = (own / "environ").read_bytes()
                except OSError:
                    continue
                told = b"\n".join((command, environment)).decode(errors="replace")
                self.seen[pid] = self.seen.get(pid, "") + told


def await_(condition: Callable[[], Any], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


@pytest.fixture
def told(
    make_agent: Any, make_hook: Any, slack: tuple[Workspace, Path],
    logins: tuple[str, list[bytes]], support: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:  # fmt: skip
    """An agent with these receivers, of which each fails first, not started."""
    first, second = make_hook(), make_hook()
    first.replies = [support.status(500)]
    second.replies = [support.status(500), support.status(403)]
    workspace, hosts = slack
    workspace.refuse = ["ratelimited"]
    monkeypatch.setenv("HOOK_BEARER", BEARER)
    (tmp_path / "hmac").write_text(HMAC)
    agent = make_agent(f"{first.url}/{URL_TOKEN}?key={URL_TOKEN}")
    settings = json.loads(agent.config.read_text())
    (oncall,) = settings["receivers"]
    oncall["webhook_configs"][0]["hmac_secret_file"] = str(tmp_path / "hmac")
    bearer = {"authorization": {"type": "Bearer", "credentials": "env:HOOK_BEARER"}}
    oncall["webhook_configs"].append({"url": second.url, "http_config": bearer})
    mail = {"to": "a@example.com", "from": "b@example.com", "smarthost": logins[0]}
    login = {"auth_username": "me", "auth_password": PASSWORD, "require_tls": False}
    oncall["email_configs"] = [mail | login]
    oncall["slack_configs"] = [{"token": SLACK, "channel": "#ops"}]
    settings["flush_interval"] = "1s"
    agent.config.write_text(json.dumps(settings))
    run = [sys.executable, "-c", VERBOSE, "run", "--config", str(agent.config)]
    agent.command = ["unshare", "--mount", "sh", "-c", IN_NAMESPACE, str(hosts), *run]
    for name in [one for one in os.environ if one.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    agent.environment = dict(os.environ)
    agent.hooks = first, second
    return agent


def ends(agent: Any) -> tuple[int, int]:
    """How many messages were taken, and how many given up."""
    state = agent.config.parent / "state" / "state.db"
    if not state.exists():
        return 0, 0
    with closing(sqlite3.connect(state)) as connection, suppress(sqlite3.OperationalError):
        rows = connection.execute("SELECT state FROM notify_message").fetchall()
        return rows.count(("delivered",)), rows.count(("failed",))
    return 0, 0


def test_no_secret_of_a_receiver_is_seen_anywhere(
    told: Any, slack: tuple[Workspace, Path],
    logins: tuple[str, list[bytes]], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    watch = Watch(told)
    told.start()
    # Two alerts for four receivers; one login and one message were refused for good.
    await_(lambda: ends(told) == (6, 2), lambda: (ends(told), told.log))
    # They were used, each of them.
    workspace, passwords = slack[0], logins[1]
    assert {f"Bearer {SLACK}"} == set(workspace.tokens)
    assert [method for method, _ in workspace.calls].count("chat.postMessage") == 3
    assert set(passwords) == {PASSWORD.encode()}
    first, second = told.hooks
    assert all(f"/{URL_TOKEN}?key={URL_TOKEN} " in line for line in first.lines)
    assert all("X-Stallwatch-Signature" in headers for headers, _ in first.received)
    assert {headers["Authorization"] for headers, _ in second.received} == {f"Bearer {BEARER}"}

    seen = {"cmdline": Path(f"/proc/{told.pid}/cmdline").read_text()}
    for path in PATHS:
        seen[path] = requests.get(told.url + path, timeout=30).text
    headers = {"Content-Type": "application/json"}
    for path in ("/api/v1/notify/resend", "/api/v1/notify/acknowledge", "/api/v2/silences"):
        answer = requests.post(told.url + path, data="{}", headers=headers, timeout=30)
        seen[f"POST {path}"] = answer.text
    for command in COMMANDS:
        for more in ((), ("--format", "json")):
            seen[" ".join((*command, *more))] = said(told, [*command, *more], capsys)
    for file in (told.config, broken(told)):
        seen[f"check {file.name}"] = said(told, ["check", str(file)], capsys)
    seen["log"] = told.log
    # One that reads the recording back is there for a moment of each start but the first.
    for _ in range(10):
        if watch.seen:
            break
        told.kill()
        told.start()
    watch.close()
    assert watch.seen
    seen["children"] = "".join(watch.seen.values())
    seen["log of another life"] = told.log
    assert "not taken yet" in seen["log"]
    assert "DEBUG" in seen["log"]
    assert "stallwatch_notify_retries_total" in seen["/metrics"]
    assert {name: shown_in(text) for name, text in seen.items() if shown_in(text)} == {}


def said(agent: Any, command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Whatever a command prints, of whatever it finds."""
    where = [] if command[0] == "check" else ["--config", str(agent.config)]
    asks = command[0] in {"alerts", "silence"} or "--resend" in command
    main([*command, *where, *(("--url", agent.url) if asks else ())])
    printed = capsys.readouterr()
    assert printed.out or printed.err, command
    return printed.out + printed.err


def broken(agent: Any) -> Path:
    """The same configuration with a mistake beside each secret."""
    settings = json.loads(agent.config.read_text())
    for kind, integrations in settings["receivers"][0].items():
        if kind != "name":
            for one in integrations:
                one["no_such_key"] = 1
    path: Path = agent.config.with_name("broken.yaml")
    path.write_text(json.dumps(settings, indent=1))
    return path


def test_what_is_looked_for_would_be_found() -> None:
    """As these secrets are written, in a URL, a header and a login."""
    login = base64.b64encode(f"\0me\0{PASSWORD}".encode()).decode()
    for text in (f"POST /{URL_TOKEN}?a=b", f"Bearer {SLACK}", f"AUTH PLAIN {login}"):
        assert shown_in(text)
