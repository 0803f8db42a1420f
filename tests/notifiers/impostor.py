"""A TLS server on loopback that plays hosts of the internet, with a certificate that verifies."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from contextlib import contextmanager
from http.server import HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path


@contextmanager
def playing(
    hosts: Collection[str],
    handler: type[BaseHTTPRequestHandler],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """Whoever connects to port 443 of these hosts meets `handler`; to anything else is a fault."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = folder / "key.pem", folder / "hosts.crt"
    names = ",".join(f"DNS:{host}" for host in hosts)
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=hosts", "-addext", f"subjectAltName={names}"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = HTTPServer(("127.0.0.1", 0), handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    import urllib3.util.connection as sockets

    connect = sockets.create_connection

    def redirected(address: tuple[str, int], *args: Any, **kwargs: Any) -> Any:
        assert address in {(host, 443) for host in hosts}
        return connect(("127.0.0.1", server.server_address[1]), *args, **kwargs)

    monkeypatch.setattr(sockets, "create_connection", redirected)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    yield
    server.shutdown()
    server.server_close()
