"""What a command says when something else answers at the agent's address."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from engine.http.client import NoAgentError, ask


def drip(server: socket.socket, done: threading.Event) -> None:
    with contextlib.suppress(OSError), server.accept()[0] as client:
        client.recv(4096)
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not done.is_set():
            client.sendall(b" ")
            time.sleep(0.02)


def test_an_answer_that_never_ends_is_given_up() -> None:
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server, done))
        thread.start()
        try:
            with pytest.raises(NoAgentError, match="does not end"):
                ask(f"http://127.0.0.1:{server.getsockname()[1]}", "/metrics", 0.3)
        finally:
            done.set()
            thread.join()
