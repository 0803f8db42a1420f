"""The listening side: limits and refusals."""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import requests

from engine.http.message import Request, Response, plain
from engine.http.server import ListenError, parse_listen, serve

if TYPE_CHECKING:
    from engine.http.server import HttpServer

TIMEOUT = 60


def exchange(server: HttpServer, text: str) -> str:
    """Send raw bytes, read until the server closes."""
    with socket.create_connection(server.address, timeout=TIMEOUT) as connection:
        received = b""
        # A server that closes at once may answer what it never read with a reset.
        with suppress(ConnectionError):
            connection.sendall(text.encode())
            while chunk := connection.recv(65536):
                received += chunk
    return received.decode()


REFUSED = [
    ("POST /api/v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n", "413"),
    ("POST /api/v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", "400"),
    (f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {'0' * 6000}\r\n\r\n", "400"),
    ("POST /api/v1/query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", "411"),
    ("POST /api/v1/query HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "403"),
    ("GET /metrics HTTP/1.1\r\nHost: rebound.example.com\r\n\r\n", "403"),
    ("GET /metrics HTTP/1.1\r\nHost: [\r\n\r\n", "403"),
    ("BREW /coffee HTTP/1.1\r\nHost: localhost\r\n\r\n", "501"),
    ("nonsense\r\n\r\n", "400"),
]


@pytest.mark.parametrize(("request_text", "status"), REFUSED)
def test_what_is_not_for_us_is_refused_and_the_connection_closed(
    server: HttpServer, request_text: str, status: str
) -> None:
    assert re.search(rf"\b{status}\b", exchange(server, request_text))


def test_a_body_that_is_no_form_is_refused(server: HttpServer) -> None:
    reply = requests.post(f"{server.url}/api/v1/query", json={"query": "up"}, timeout=TIMEOUT)
    assert reply.status_code == 400
    assert "application/x-www-form-urlencoded" in reply.json()["error"]


def test_a_body_of_json_and_delete_are_for_what_is_mounted(sources: Any) -> None:
    asked = []

    def handler(request: Request) -> Response:
        asked.append((request.method, request.path, request.body, request.content_type))
        return plain(200, "ok")

    sources.handlers["/api/v2/"] = handler
    server = serve("127.0.0.1:0", sources)
    url = f"{server.url}/api/v2/silence/a"
    try:
        requests.post(url, json={"a": 1}, timeout=TIMEOUT)
        requests.delete(url, timeout=TIMEOUT)
        requests.post(url, data={"a": 1}, timeout=TIMEOUT)
        assert requests.delete(f"{server.url}/api/v1/alerts", timeout=TIMEOUT).status_code == 405
    finally:
        server.stop()
    assert asked == [
        ("POST", "/api/v2/silence/a", b'{"a": 1}', "application/json"),
        ("DELETE", "/api/v2/silence/a", b"", "text/plain"),
        ("POST", "/api/v2/silence/a", b"", "application/x-www-form-urlencoded"),
    ]


@pytest.mark.parametrize("host", ["localhost:9466", "127.0.0.1", "[::1]:9466", "10.1.2.3"])
def test_localhost_and_addresses_may_ask_a_loopback_server(server: HttpServer, host: str) -> None:
    reply = requests.get(f"{server.url}/-/healthy", headers={"Host": host}, timeout=TIMEOUT)
    assert reply.status_code == 200


def test_a_client_that_leaves_in_the_middle_disturbs_nobody(server: HttpServer) -> None:
    with socket.create_connection(server.address, timeout=TIMEOUT) as connection:
        connection.sendall(b"POST /api/v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Le")
    assert requests.get(f"{server.url}/-/healthy", timeout=TIMEOUT).status_code == 200


def test_a_body_of_half_a_million_fields_is_cut_before_it_is_taken_apart(
    server: HttpServer,
) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    reply = requests.post(
        f"{server.url}/api/v1/query",
        data="query=up&" + "a&" * 500_000,
        headers=form,
        timeout=TIMEOUT,
    )
    assert reply.status_code == 200


def test_a_client_that_sends_a_byte_now_and_then_is_let_go_like_an_idle_one(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.http.server.IDLE_SECONDS", 0.5)
    with socket.create_connection(server.address, timeout=TIMEOUT) as connection:
        connection.settimeout(0.1)
        closed = False
        for _ in range(600):
            # A reset says the same as an end.
            try:
                connection.sendall(b"G")
                closed = not connection.recv(1024)
            except TimeoutError:
                continue
            except ConnectionError:
                closed = True
            if closed:
                break
    assert closed


def test_more_connections_than_there_is_room_for_are_closed_at_once(
    sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.http.server.MAX_CONNECTIONS", 1)
    server = serve("127.0.0.1:0", sources)
    try:
        with requests.Session() as session:
            assert session.get(f"{server.url}/-/healthy", timeout=TIMEOUT).status_code == 200
            # The session keeps its connection open, so there is no room for another.
            assert exchange(server, "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n") == ""
    finally:
        server.stop()


def test_an_ipv6_loopback_address_is_served(sources: Any) -> None:
    try:
        server = serve("[::1]:0", sources)
    except ListenError:
        pytest.skip("this machine has no IPv6 loopback")
    try:
        assert server.url.startswith("http://[::1]:")
        assert requests.get(f"{server.url}/-/healthy", timeout=TIMEOUT).status_code == 200
        rebound = {"Host": "rebound.example.com"}
        url = f"{server.url}/-/healthy"
        assert requests.get(url, headers=rebound, timeout=TIMEOUT).status_code == 403
    finally:
        server.stop()


def test_head_sends_no_body(server: HttpServer) -> None:
    text = "HEAD /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert exchange(server, text).endswith("\r\n\r\n")


@pytest.mark.parametrize("listen", ["", "9466", "localhost", "1.2.3.4:x", "::1:9466", "a:70000"])
def test_an_address_that_is_none_is_named(listen: str) -> None:
    with pytest.raises(ListenError, match="is no address to listen on"):
        parse_listen(listen)


def test_addresses_are_read() -> None:
    assert parse_listen("127.0.0.1:9466") == ("127.0.0.1", 9466)
    assert parse_listen("[::1]:0") == ("::1", 0)
    assert parse_listen(":9466") == ("", 9466)


def test_a_taken_address_is_one_clear_error(server: HttpServer, sources: Any) -> None:
    listen = f"127.0.0.1:{server.address[1]}"
    with pytest.raises(ListenError, match=f"cannot listen on {listen}: Address already in use"):
        serve(listen, sources)
