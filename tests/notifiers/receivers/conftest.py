"""The services of `tests.notifiers.played` on loopback."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from http.server import HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tests.notifiers.played import HOSTS, taken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def services(hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The hook as every service of HOSTS, with a certificate that verifies."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "services.crt"
    names = ",".join(f"DNS:{host}" for host in HOSTS)
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=services", "-addext", f"subjectAltName={names}"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = HTTPServer(("127.0.0.1", 0), hook.server.RequestHandlerClass)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    import urllib3.util.connection as sockets

    connect = sockets.create_connection

    def redirected(address: tuple[str, int], *args: Any, **kwargs: Any) -> Any:
        assert address[0] in HOSTS
        return connect(("127.0.0.1", server.server_address[1]), *args, **kwargs)

    monkeypatch.setattr(sockets, "create_connection", redirected)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    hook.always = taken
    yield hook
    server.shutdown()
    server.server_close()
