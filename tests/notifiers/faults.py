"""A receiver over HTTP that fails in one way until it is mended, and names that lead to it."""

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

    import pytest


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    """A whole answer over HTTP, after which the connection is closed."""
    length = f"Content-Length: {len(body)}"
    lines = [f"HTTP/1.1 {status}", length, "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


# Slack's webhooks say it in the body, too.
OK = answer("200 OK", body=b"ok")


@dataclass(frozen=True)
class Taken:
    """A message that was taken: its headers, by names in small letters, and its JSON."""

    headers: dict[str, str]
    body: Any


@dataclass
class Faulty:
    """`answer`: what it says while it fails, None: nothing for as long. `taken`: what it took.

    `context`: of its TLS while it fails; `mended_context`: afterwards. Until it is mended, one that
    `listens` not has nobody on its port, the name of one that is `named` not leads nowhere, and one
    that is `slow` takes what it is sent and does not say so.
    """

    answer: bytes | None = OK
    context: ssl.SSLContext | None = None
    mended_context: ssl.SSLContext | None = None
    listens: bool = True
    slow: bool = False
    named: bool = True
    taken: list[Taken] = field(default_factory=list)
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

    def is_known(self) -> bool:
        """Whether its name leads to it."""
        return self.named or self.mended.is_set()

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
            if is_mended or self.answer == OK:
                self.taken.append(Taken(headers, json.loads(body)))
            if not is_mended and (self.slow or self.answer is None):
                self.mended.wait()
                if self.answer is None:
                    return
            connection.sendall(OK if is_mended else self.answer or b"")


def leading(host: str, port: int, faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks where this port of a host is comes to `faulty`, once it has a name."""
    whole = socket.getaddrinfo

    def resolve(name: Any, service: Any, *given: Any, **named: Any) -> Any:
        if (name, service) != (host, port):
            return whole(name, service, *given, **named)
        if not faulty.is_known():
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return whole("127.0.0.1", faulty.port, *given, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


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
                *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
                *("-nodes", "-days", "9"),
                *("-subj", "/CN=authority", "-keyout", "authority.key", "-out", "authority.crt"),
            )
        return path

    def context(
        self, name: str, subject: str, *, days: int = 9, own: bool = False
    ) -> ssl.SSLContext:
        """A server's TLS; `own`: signed by itself. `days` -1: it has expired."""
        signer = [] if own else ["-CA", str(self.file), "-CAkey", "authority.key"]
        curve = ("-name", "prime256v1", "-genkey", "-noout")
        self._openssl("ecparam", *curve, "-out", f"{name}.key")
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
