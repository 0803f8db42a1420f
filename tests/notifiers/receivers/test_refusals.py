"""What is sent, tried again and given up: one table for all receivers, over real sockets.

A row is what goes wrong, the reason that metrics and `notify dead` show, and whether it is given
up at once; what is not is tried again. `apprise` stands for every service that apprise speaks.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest

from notifiers.integrations import GROUP, integrations
from notifiers.notification import Notification
from notifiers.receivers.receiver import SendError
from notifiers.worker import send

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OVER_HTTP = ("webhook", "alertmanager", "heartbeat", "apprise")
# Slack speaks to one host only; tests/notifiers/test_slack.py plays it.
ELSEWHERE = {"slack", "email"}


def test_the_table_speaks_of_every_receiver() -> None:
    from importlib.metadata import entry_points

    assert {point.name for point in entry_points(group=GROUP)} == {*OVER_HTTP} | ELSEWHERE


class Wire:
    """A server that reads one request and answers with bytes of the test's, then hangs up."""

    def __init__(self) -> None:
        self.answer: bytes | None = b""
        self.context: ssl.SSLContext | None = None
        self.asked = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._leave = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._leave.set()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            if self.context is not None:
                connection = self.context.wrap_socket(connection, server_side=True)
            request = connection.recv(65_536)
            # A greeting of TLS has no lines: a server that knows none answers at once.
            while b"\r\n\r\n" not in request and not request.startswith(b"\x16"):
                request += connection.recv(65_536)
            head, _, body = request.partition(b"\r\n\r\n")
            lengths = [
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length")
            ]
            while lengths and len(body) < lengths[0]:
                body += connection.recv(65_536)
            self.asked += 1
            if self.answer is None:
                self._leave.wait(60)
            else:
                connection.sendall(self.answer)
            connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def wire() -> Iterator[Wire]:
    server = Wire()
    yield server
    server.close()


def deliver(kind: str, place: str, support: Any, scheme: str = "http", **own: Any) -> None:
    """Send a test message by a configuration of this kind, as a worker would."""
    url = f"{scheme}://{place}/s3cret"
    if kind == "apprise":
        url = url.replace("http", "json", 1)
    config = support.configured(ops=[(kind, {"url": url, "timeout": "30s", **own})])
    (integration,) = integrations(config)
    alert = support.firing()
    send(integration, Notification("the-id", "ops", "firing", {}, (alert,), test=True))


def failure(kind: str, place: str, support: Any, **own: Any) -> SendError:
    with pytest.raises(SendError) as caught:
        deliver(kind, place, support, **own)
    assert "s3cret" not in str(caught.value)
    return caught.value


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


STATUSES = [
    ("400 Bad Request", "http_400", True),
    ("401 Unauthorized", "http_401", True),
    ("403 Forbidden", "http_403", True),
    ("404 Not Found", "http_404", True),
    ("405 Method Not Allowed", "http_405", True),
    ("410 Gone", "http_410", True),
    ("413 Content Too Large", "http_413", True),
    ("422 Unprocessable Content", "http_422", True),
    ("301 Moved Permanently", "redirect", True),
    ("302 Found", "redirect", True),
    ("307 Temporary Redirect", "redirect", True),
    ("408 Request Timeout", "server_error", False),
    ("425 Too Early", "server_error", False),
    ("429 Too Many Requests", "rate_limited", False),
    ("500 Internal Server Error", "server_error", False),
    ("502 Bad Gateway", "server_error", False),
    ("503 Service Unavailable", "server_error", False),
    ("504 Gateway Timeout", "server_error", False),
]


@pytest.mark.parametrize("kind", OVER_HTTP)
@pytest.mark.parametrize(("status", "reason", "permanent"), STATUSES)
def test_what_a_status_means(
    kind: str, status: str, reason: str, permanent: bool, wire: Wire, support: Any
) -> None:
    wire.answer = answer(status, "Location: http://127.0.0.1:1/elsewhere", "Retry-After: 7")
    error = failure(kind, f"127.0.0.1:{wire.port}", support)
    assert (error.reason, error.permanent) == (reason, permanent)
    patient = reason in {"rate_limited", "server_error"}
    assert error.retry_after_seconds == (7.0 if patient else None)
    assert wire.asked == 1


@pytest.mark.parametrize("kind", OVER_HTTP)
@pytest.mark.parametrize("status", ["200 OK", "201 Created", "202 Accepted", "204 No Content"])
def test_what_is_taken(kind: str, status: str, wire: Wire, support: Any) -> None:
    wire.answer = answer(status)
    deliver(kind, f"127.0.0.1:{wire.port}", support)
    assert wire.asked == 1


BROKEN = {
    "nothing is answered": b"",
    "the first line breaks off": b"HTTP/1.1 20",
    "the headers break off": b"HTTP/1.1 500 Internal Server Error\r\nContent-Le",
    "it is no HTTP": b"220 smtp.example.com ESMTP\r\n",
}


@pytest.mark.parametrize("kind", OVER_HTTP)
@pytest.mark.parametrize("what", BROKEN)
def test_an_answer_that_is_none_is_no_acknowledgement(
    kind: str, what: str, wire: Wire, support: Any
) -> None:
    wire.answer = BROKEN[what]
    error = failure(kind, f"127.0.0.1:{wire.port}", support)
    assert error.reason in {"connection", "server_error"}
    assert not error.permanent


@pytest.mark.parametrize("kind", OVER_HTTP)
def test_a_receiver_that_hangs_is_left_and_tried_again(kind: str, wire: Wire, support: Any) -> None:
    wire.answer = None
    error = failure(kind, f"127.0.0.1:{wire.port}", support, timeout="200ms")
    assert (error.reason, error.permanent) == ("timeout", False)


@pytest.mark.parametrize("kind", OVER_HTTP)
def test_nobody_listening_is_a_passing_failure(kind: str, support: Any) -> None:
    error = failure(kind, "127.0.0.1:1", support)
    assert (error.reason, error.permanent) == ("connection", False)
    assert "refused" in str(error)


@pytest.mark.parametrize("kind", OVER_HTTP)
def test_a_name_that_does_not_resolve_is_a_passing_failure(kind: str, support: Any) -> None:
    error = failure(kind, "stallwatch.invalid", support)
    assert (error.reason, error.permanent) == ("connection", False)


@pytest.mark.parametrize("kind", OVER_HTTP)
def test_a_server_without_tls_is_not_told_without(kind: str, wire: Wire, support: Any) -> None:
    wire.answer = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    error = failure(kind, f"127.0.0.1:{wire.port}", support, scheme="https")
    assert (error.reason, error.permanent) == ("tls", False)


@pytest.mark.parametrize("kind", OVER_HTTP)
def test_a_certificate_of_a_strangers_is_not_trusted(
    kind: str, wire: Wire, support: Any, certificate: Path
) -> None:
    wire.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    wire.context.load_cert_chain(certificate.with_suffix(".crt"), certificate)
    wire.answer = answer("200 OK")
    error = failure(kind, f"127.0.0.1:{wire.port}", support, scheme="https")
    assert (error.reason, error.permanent) == ("tls", False)
    assert wire.asked == 0


# What a mail server says at the greeting, EHLO, MAIL, RCPT, DATA and the final dot.
POLITE = ("220 mail", "250 mail", "250 ok", "250 ok", "354 go on", "250 taken")
SMTP = [
    (0, "421 too busy", "smtp_421", False),
    (0, "554 go away", "smtp_554", True),
    (2, "451 later", "smtp_451", False),
    (2, "553 not you", "smtp_553", True),
    (3, "450 greylisted", "smtp_450", False),
    (3, "550 no such user", "smtp_550", True),
    (4, "451 no space", "smtp_451", False),
    (4, "503 not now", "smtp_503", True),
    (5, "452 no space", "smtp_452", False),
    (5, "554 looks like spam", "smtp_554", True),
    *((place, "", "connection", False) for place in range(6)),
    (0, "SSH-2.0-OpenSSH_9.2", "connection", False),
]


@pytest.fixture
def mail_server() -> Iterator[Any]:
    """`mail_server(replies)`: the port of one that says these in turn; "" hangs up."""
    listeners = []

    def serve(replies: tuple[str, ...]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=_speak, args=(listener, replies), daemon=True).start()
        port: int = listener.getsockname()[1]
        return port

    yield serve
    for listener in listeners:
        listener.close()


def _speak(listener: socket.socket, replies: tuple[str, ...]) -> None:
    with contextlib.suppress(OSError):
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            for reply in replies:
                if not reply:
                    return
                connection.sendall(f"{reply}\r\n".encode())
                # After a refusal the client takes its mail back, and asks for nothing else.
                while (line := lines.readline()).startswith((b"rset", b"quit")):
                    connection.sendall(b"250 ok\r\n")
                while reply.startswith("354") and line not in {b".\r\n", b""}:
                    line = lines.readline()


def mail(port: int | str, support: Any, **own: Any) -> None:
    settings = {
        "to": "oncall@example.com",
        "from": "stallwatch@example.com",
        "smarthost": f"127.0.0.1:{port}" if isinstance(port, int) else port,
        "require_tls": False,
        "timeout": "30s",
    }
    (integration,) = integrations(support.configured(ops=[("email", settings | own)]))
    send(integration, Notification("the-id", "ops", "firing", {}, (support.firing(),)))


@pytest.mark.parametrize(("place", "reply", "reason", "permanent"), SMTP)
def test_what_a_mail_servers_reply_means(
    place: int, reply: str, reason: str, permanent: bool, mail_server: Any, support: Any
) -> None:
    replies = (*POLITE[:place], reply, *POLITE[place + 1 :])
    with pytest.raises(SendError) as caught:
        mail(mail_server(replies), support)
    assert (caught.value.reason, caught.value.permanent) == (reason, permanent)


def test_a_mail_that_is_taken_is_no_failure(mail_server: Any, support: Any) -> None:
    mail(mail_server(POLITE), support)


def test_a_mail_server_whose_name_does_not_resolve_is_a_passing_failure(support: Any) -> None:
    with pytest.raises(SendError) as caught:
        mail("stallwatch.invalid:25", support)
    assert (caught.value.reason, caught.value.permanent) == ("connection", False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    path = tmp_path_factory.mktemp("tls") / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", path, "-out", path.with_suffix(".crt")),
        ],
        check=True,
        capture_output=True,
    )
    return path
