"""The listening side: bounded threads, bounded requests, loopback unless told otherwise."""

from __future__ import annotations

import io
import ipaddress
import logging
import socket
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from engine.address import parse_address
from engine.http.application import Application
from engine.http.message import FORM, JSON, Request, Response, failure, plain
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from engine.http.sources import Sources

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 1 << 20
MAX_LENGTH_DIGITS = 18
MAX_FIELDS = 1000
MAX_CONNECTIONS = 64
# From one request's end to the next one's: a client that sends a byte now and then is idle too.
IDLE_SECONDS = 30.0
POLL_SECONDS = 60.0  # how soon a stop is noticed that the socket did not tell of


class ListenError(StallwatchError):
    """The address cannot be listened on; says which and why."""


class HttpServer:
    """A running server. `address` is (host, port) as bound, `url` what a client uses."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever, args=(POLL_SECONDS,), name="http", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; the port that the kernel chose when 0 was asked for."""
        host, port = self._server.server_address[:2]
        return str(host), port

    @property
    def url(self) -> str:
        """`http://127.0.0.1:9466`."""
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def stop(self) -> None:
        """Close the listening socket; answers under way are finished by their own threads."""
        # Wakes the thread that waits for connections, which otherwise would have to look now and
        # then (accept(2): EINVAL once the socket is shut down).
        self._server.socket.shutdown(socket.SHUT_RDWR)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


def serve(listen: str, sources: Sources) -> HttpServer:
    """Listen on `host:port` (`[::1]:9466`, `:9466` for every interface) and answer in threads.

    Raises ListenError when the address is no address, taken or not ours.
    """
    host, port = parse_listen(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server_class = type("_Server", (_Server,), {"address_family": family})
    try:
        return HttpServer(server_class((host, port), Application(sources)))
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ListenError(
            f"stallwatch: cannot listen on {listen}: {reason}\n"
            "    hint: --listen HOST:PORT (or `listen:` in stallwatch.yaml) chooses another address"
        ) from error


def parse_listen(listen: str) -> tuple[str, int]:
    """Host and port of `host:port`; raises ListenError."""
    try:
        return parse_address(listen)
    except ValueError as error:
        raise ListenError(
            f"stallwatch: '{listen}' is no address to listen on\n"
            "    hint: write HOST:PORT, for example 127.0.0.1:9466 or [::1]:9466"
        ) from error


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    # Not http.server.HTTPServer: that one asks the resolver for a name at start.
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], application: Application) -> None:
        self.application = application
        self._connections = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(address, _Handler)
        host = str(self.server_address[0])
        self.loopback_only = ipaddress.ip_address(host.partition("%")[0]).is_loopback

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread per connection, but never more than MAX_CONNECTIONS."""
        if not self._connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads on this machine
            self._connections.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection, then make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """A client that went away is its own affair; no traceback on standard error."""
        logger.debug("connection from %s broke: %s", client_address, sys.exc_info()[1])


class _Incoming(io.RawIOBase):
    """What a client sends, until `deadline` (monotonic seconds); TimeoutError after it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.deadline = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(left)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(IDLE_SECONDS)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self._incoming = _Incoming(self.connection)
        self.rfile = io.BufferedReader(self._incoming)

    def handle_one_request(self) -> None:
        self._incoming.deadline = time.monotonic() + IDLE_SECONDS
        super().handle_one_request()

    def version_string(self) -> str:
        return "stallwatch"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        logger.debug("%s %s", self.address_string(), format % args)

    def _answer(self) -> None:
        refused = self._refusal()
        self._send(refused or self.server.application.handle(self._request()))

    def _refusal(self) -> Response | None:
        """What is wrong with the request before it is read, or None. Ends the connection."""
        problem: Response | None = None
        length = self.headers.get("Content-Length", "0")
        if not _host_is_ours(self.headers.get("Host", ""), self.server.loopback_only):
            # A page in a browser on this machine must not reach the agent through a DNS name
            # of its own that it points at 127.0.0.1.
            problem = plain(403, "this address answers to localhost and to IP addresses only")
        elif "Transfer-Encoding" in self.headers:
            problem = plain(411, "a body needs a Content-Length")
        elif not length.isdecimal() or len(length) > MAX_LENGTH_DIGITS:
            problem = plain(400, "Content-Length is no number")
        elif int(length) > MAX_BODY_BYTES:
            problem = plain(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
        elif int(length) and self.headers.get_content_type() not in {FORM, JSON}:
            problem = failure("bad_data", f"a body must be {FORM} or {JSON}")
        if problem is not None:
            self.close_connection = True
        return problem

    def _request(self) -> Request:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        content_type = self.headers.get_content_type()
        form = body.decode("utf-8", "replace") if content_type == FORM else ""
        fields: dict[str, list[str]] = {}
        for part in (form, query):
            # Cut before it is taken apart: a megabyte of `a&a&a` is half a million fields.
            first = "&".join(part.split("&", MAX_FIELDS)[:MAX_FIELDS])
            for name, value in parse_qsl(first, keep_blank_values=True):
                fields.setdefault(name, []).append(value)
        parameters = {name: tuple(values) for name, values in fields.items()}
        accept = self.headers.get("Accept", "")
        rest = b"" if form else body
        return Request(self.command, unquote(path), parameters, accept, rest, content_type)

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in response.headers:
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)


def _host_is_ours(host: str, loopback_only: bool) -> bool:
    if not loopback_only or not host:
        return True
    name = host.partition("]")[0][1:] if host.startswith("[") else host.partition(":")[0].lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
