"""What goes wrong with a receiver, through the whole delivery: the table of docs/delivery.md.

Two receivers hear of the same alerts. One fails in one way until the other has heard all; then it
is mended, and hears all as well, in order. The table says with which reason it was tried again, or
given up.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.notifiers.faults import OK, Authority, Faulty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOCS = Path(__file__).resolve().parents[2] / "docs" / "delivery.md"
AGAIN, GIVEN_UP = "tried again", "given up"
HERE = "IP:127.0.0.1"


def answer(status: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Length: 0", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode()


# What goes wrong, what metrics call it, and what becomes of the message.
TABLE = [
    ("nobody listens", "connection", AGAIN),
    ("its name does not resolve", "connection", AGAIN),
    ("it never answers", "timeout", AGAIN),
    ("its answer breaks off", "connection", AGAIN),
    ("429 with Retry-After", "rate_limited", AGAIN),
    ("500", "server_error", AGAIN),
    ("its certificate has expired", "tls", AGAIN),
    ("its certificate is another host's", "tls", AGAIN),
    ("its certificate is signed by itself", "tls", AGAIN),
    ("404", "http_404", GIVEN_UP),
    ("a redirect", "redirect", GIVEN_UP),
]
MAKERS: dict[str, Callable[[Authority], Faulty]] = {
    "nobody listens": lambda _: Faulty(listens=False),
    "its name does not resolve": lambda _: Faulty(),
    "it never answers": lambda _: Faulty(None),
    "its answer breaks off": lambda _: Faulty(b"HTTP/1.1 20"),
    "429 with Retry-After": lambda _: Faulty(answer("429 Too Many Requests", "Retry-After: 1")),
    "500": lambda _: Faulty(answer("500 Internal Server Error")),
    "its certificate has expired": lambda one: tls(one, HERE, days=-1),
    "its certificate is another host's": lambda one: tls(one, "DNS:other.example"),
    "its certificate is signed by itself": lambda one: tls(one, HERE, own=True),
    "404": lambda _: Faulty(answer("404 Not Found")),
    "a redirect": lambda _: Faulty(answer("302 Found", "Location: http://127.0.0.1:1/")),
}


def tls(authority: Authority, subject: str, **own: Any) -> Faulty:
    right = authority.context("right", HERE)
    return Faulty(OK, authority.context("wrong", subject, **own), right)


@pytest.fixture
def faulty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Faulty]:
    if "certificate" in request.param and shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    made = MAKERS[request.param](Authority(tmp_path))
    yield made
    made.close()


def settings(what: str, faulty: Faulty, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    host = "127.0.0.1"
    if "resolve" in what:
        host = "receiver.test"
        whole = socket.getaddrinfo

        def resolve(name: Any, *given: Any, **named: Any) -> Any:
            if name == host and not faulty.mended.is_set():
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return whole("127.0.0.1" if name == host else name, *given, **named)

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
    own: dict[str, Any] = {"timeout": "1s" if "never" in what else "30s"}
    scheme = "http"
    if faulty.context is not None:
        scheme = "https"
        own["http_config"] = {"tls_config": {"ca_file": str(folder / "authority.crt")}}
    return {"url": f"{scheme}://{host}:{faulty.port}/", **own}


def said(bodies: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["commonLabels"]["alertname"], one["status"]) for one in bodies]


@pytest.mark.parametrize(("faulty", "what", "reason", "end"), [(row[0], *row) for row in TABLE],
                         indirect=["faulty"], ids=[row[0] for row in TABLE])  # fmt: skip
def test_a_receiver_that_fails_hears_all_in_the_end_and_holds_up_nobody(
    faulty: Faulty, what: str, reason: str, end: str, hook: Any, make_agent: Any, support: Any,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    own = settings(what, faulty, tmp_path, monkeypatch)
    config = support.configured(bad=[("webhook", own)], good=[("webhook", {"url": hook.url})])
    agent = make_agent(config)
    one, other = support.firing("One"), support.firing("Other")
    agent.fire(one, other)
    hook.wait_for(2)
    agent.fire(support.resolved(one))
    hook.wait_for(3)
    # The other receiver has heard all, in order, while this one still fails.
    good = said([json.loads(body) for _, body in hook.received])
    assert good.index(("One", "firing")) < good.index(("One", "resolved"))
    assert faulty.taken == []
    if end == GIVEN_UP:
        # The end of what it never heard of is not sent either.
        agent.settle("failed", 2)
        assert ("bad", "firing", "rejected") in agent.rows("failed")
        assert faulty.asked == 2
        return
    name = "stallwatch_notify_retries_total"
    while not agent.sample(name, receiver="bad", reason=reason):
        agent.settle("pending", 1)
    faulty.mend()
    agent.settle("delivered", 6)
    bad = said([body for _, body in faulty.taken])
    assert sorted(bad) == sorted(good)
    assert bad.index(("One", "firing")) < bad.index(("One", "resolved"))
    ids = [own for own, _ in faulty.taken]
    assert len(ids) == len(set(ids)) == 3


def test_the_table_of_the_documentation_is_this_one() -> None:
    text = DOCS.read_text(encoding="utf-8")
    _, _, rest = text.partition("| a receiver over HTTP | reason | its message is |\n")
    rows = re.findall(r"^\| (.+?) \| `(.+?)` \| (.+?) \|$", rest.partition("\n\n")[0], re.MULTILINE)
    assert rows == TABLE
