"""What goes wrong with a mail server, through the whole delivery; see test_faults.py."""

from __future__ import annotations

import re
import shutil
import socket
from email import message_from_bytes
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiosmtpd.controller import Controller

from tests.notifiers.faults import Authority

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

DOCS = Path(__file__).resolve().parents[2] / "docs" / "delivery.md"
AGAIN, GIVEN_UP = "tried again", "given up"
TABLE = [
    ("421 to the sender", "smtp_421", AGAIN),
    ("450 to the recipient", "smtp_450", AGAIN),
    ("452 at the end of the mail", "smtp_452", AGAIN),
    ("the connection drops", "connection", AGAIN),
    ("STARTTLS is missing", "connection", AGAIN),
    ("550 to the recipient", "smtp_550", GIVEN_UP),
    ("554 at the end of the mail", "smtp_554", GIVEN_UP),
]


class Post:
    """Takes mail, but for one fault until it is mended: (where, reply), the reply "" hangs up."""

    def __init__(self, where: str, reply: str) -> None:
        self.where, self.reply = where, reply
        self.taken: list[tuple[str, str]] = []

    def _answer(self, where: str, server: Any) -> str:
        if where != self.where:
            return "250 OK"
        if not self.reply:
            server.transport.close()
        return self.reply or "250 OK"

    async def handle_MAIL(  # noqa: N802
        self, server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        envelope.mail_from = address
        return self._answer("sender", server)

    async def handle_RCPT(  # noqa: N802
        self, server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        envelope.rcpt_tos.append(address)
        return self._answer("recipient", server)

    async def handle_DATA(self, server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        reply = self._answer("end", server)
        if reply == "250 OK":
            mail = message_from_bytes(envelope.content)
            self.taken.append((mail["X-Stallwatch-Id"], mail["Subject"].split("]")[0]))
        return reply


class Server:
    """Serves a `Post` on a port that stays; whoever mends it gives it what was missing."""

    def __init__(self, post: Post, lacking: ssl.SSLContext | None) -> None:
        self.post, self._lacking = post, lacking
        with socket.create_server(("127.0.0.1", 0)) as unused:
            self.port = unused.getsockname()[1]
        self._serve()

    def mend(self) -> None:
        self.post.where = ""
        if self._lacking is not None:
            self.close()
            self._serve(tls_context=self._lacking, require_starttls=True)

    def close(self) -> None:
        self._controller.stop()

    def _serve(self, **tls: Any) -> None:
        self._controller = Controller(self.post, hostname="127.0.0.1", port=self.port, **tls)
        self._controller.start()


@pytest.fixture
def server(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    reply = what.split(maxsplit=1)[0]
    where = next((word for word in ("sender", "recipient", "end") if word in what), "")
    lacking = None
    if reply.isdecimal():
        post = Post(where, f"{reply} no")
    elif "STARTTLS" in what:
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed")
        post, authority = Post("", ""), Authority(tmp_path)
        lacking = authority.context("right", "IP:127.0.0.1")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    else:
        post = Post("sender", "")
    made = Server(post, lacking)
    yield made
    made.close()


@pytest.mark.parametrize(("what", "reason", "end"), TABLE, ids=[row[0] for row in TABLE])
def test_a_mail_server_that_fails_gets_all_in_the_end_and_holds_up_nobody(
    server: Server, what: str, reason: str, end: str, hook: Any, make_agent: Any, support: Any
) -> None:
    post = server.post
    own = {"to": "a@example.com", "from": "b@example.com", "smarthost": f"127.0.0.1:{server.port}"}
    tls = {"require_tls": "STARTTLS" in what}
    agent = make_agent(
        support.configured(bad=[("email", own | tls)], good=[("webhook", {"url": hook.url})])
    )
    alert = support.firing()
    agent.fire(alert)
    hook.wait_for(1)
    agent.fire(support.resolved(alert))
    hook.wait_for(2)
    assert post.taken == []
    if end == GIVEN_UP:
        agent.settle("failed", 1)
        assert agent.rows("failed")[0] == ("bad", "firing", "rejected")
        assert agent.entries("failed")[0].detail.startswith(f"{reason}: ")
        return
    while not agent.sample("stallwatch_notify_retries_total", receiver="bad", reason=reason):
        agent.settle("pending", 1)
    assert post.taken == []
    server.mend()
    agent.settle("delivered", 4)
    assert [status for _, status in post.taken] == ["[FIRING", "[RESOLVED"]
    assert len({own for own, _ in post.taken}) == 2


def test_the_table_of_the_documentation_is_this_one() -> None:
    text = DOCS.read_text(encoding="utf-8")
    _, _, rest = text.partition("| a mail server | reason | its mail is |\n")
    rows = re.findall(r"^\| (.+?) \| `(.+?)` \| (.+?) \|$", rest.partition("\n\n")[0], re.MULTILINE)
    assert rows == TABLE
