"""A receiver over HTTP that fails in one way until it is mended."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass
class Faulty:
    """`answer`: what it says while it fails, None: nothing for as long. `taken`: (id, body) since.

    `context`: of its TLS while it fails; `mended_context`: afterwards. `listens` False: until it is
    mended nobody listens on its port.
    """

    answer: bytes | None = OK
    context: ssl.SSLContext | None = None
    mended_context: ssl.SSLContext | None = None
    listens: bool = True
    taken: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    asked: int = 0
    mended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        if self.listens:
            self._listen()

    def mend(self) -> None:
        self.mended.set()
        if not self.listens:
            self._listen()

    def close(self) -> None:
        self.mended.set()
        self.socket.close()

    def _listen(self) -> None:
        self.socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._speak, args=(connection,), daemon=True).start()

    def _speak(self, connection: socket.socket) -> None:
        is_mended = self.mended.is_set()
        with contextlib.suppress(OSError), connection:
            context = self.mended_context if is_mended else self.context
            if context is not None:
                connection = context.wrap_socket(connection, server_side=True)
            with connection.makefile("rb") as lines:
                headers: dict[str, str] = {}
                while (line := lines.readline()) not in {b"\r\n", b""}:
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                body = lines.read(int(headers.get("content-length", 0)))
            self.asked += 1
            if not is_mended and self.answer is None:
                self.mended.wait()
                return
            if is_mended or self.answer == OK:
                self.taken.append((headers["idempotency-key"], json.loads(body)))
            connection.sendall(OK if is_mended else self.answer or b"")


@dataclass(frozen=True)
class Authority:
    """Certificates of an authority that the receiver's configuration trusts."""

    folder: Path

    @property
    def file(self) -> Path:
        """The authority's own certificate."""
        path = self.folder / "authority.crt"
        if not path.exists():
            self._openssl(
                *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9"),
                *("-subj", "/CN=authority", "-keyout", "authority.key", "-out", "authority.crt"),
            )
        return path

    def context(
        self, name: str, subject: str, *, days: int = 9, own: bool = False
    ) -> ssl.SSLContext:
        """A server's TLS; `own`: signed by itself. `days` -1: it has expired."""
        signer = [] if own else ["-CA", str(self.file), "-CAkey", "authority.key"]
        self._openssl("genrsa", "-out", f"{name}.key", "2048")
        self._openssl("req", "-new", "-key", f"{name}.key", "-subj", "/CN=x", "-out", f"{name}.csr")
        (self.folder / "names").write_text(f"subjectAltName={subject}\n")
        self._openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-days", str(days), "-extfile", "names"),
            *(signer or ["-signkey", f"{name}.key"]),
            *("-out", f"{name}.crt"),
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        return context

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)
