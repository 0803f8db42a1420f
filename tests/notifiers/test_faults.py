"""What goes wrong with a receiver, through the whole delivery: the table of docs/delivery.md.

Two receivers hear of the same alerts. One fails in one way until the other has heard all; then it
is mended, and hears all as well, in order. The table says with which reason it was tried again, or
given up. All of it holds for a webhook, for Slack through apprise, and for an Alertmanager.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.notifiers.faults import OK, Authority, Faulty, Taken, answer, leading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOCS = Path(__file__).resolve().parents[2] / "docs" / "delivery.md"
AGAIN, GIVEN_UP = "tried again", "given up"
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
MAKERS: dict[str, Callable[..., Faulty]] = {
    "nobody listens": lambda tls: tls(listens=False),
    "its name does not resolve": lambda tls: tls(named=False),
    "it never answers": lambda tls: tls(None),
    "its answer breaks off": lambda tls: tls(b"HTTP/1.1 20"),
    "429 with Retry-After": lambda tls: tls(answer("429 Too Many Requests", "Retry-After: 1")),
    "500": lambda tls: tls(answer("500 Internal Server Error")),
    "its certificate has expired": lambda tls: tls(days=-1),
    "its certificate is another host's": lambda tls: tls(subject="DNS:other.example"),
    "its certificate is signed by itself": lambda tls: tls(own=True),
    "404": lambda tls: tls(answer("404 Not Found")),
    "a redirect": lambda tls: tls(answer("302 Found", "Location: http://127.0.0.1:1/")),
    "it is slow": lambda tls: tls(slow=True),
}
# Where each kind of receiver is. apprise's Slack plugin knows one host.
PLACES = {
    "webhook": ("receiver.test", "https://receiver.test/hook"),
    "slack": ("hooks.slack.com", "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnl"),
    "alertmanager": ("receiver.test", "https://receiver.test/monitoring"),
}
KINDS = [*PLACES]


class Place:
    """A faulty receiver of a kind, what is configured of it, and what it was told."""

    def __init__(self, kind: str, what: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kind = kind
        authority = Authority(folder)
        host, url = PLACES[kind]

        def tls(answer: bytes | None = OK, *, subject: str = "", **own: Any) -> Faulty:
            ways = {name: own.pop(name) for name in ("days", "own") if name in own}
            right = authority.context("right", f"DNS:{host}")
            is_wrong = subject or ways
            context = authority.context("wrong", subject or f"DNS:{host}", **ways)
            return Faulty(answer, context if is_wrong else right, right, **own)

        self.faulty = MAKERS[what](tls)
        leading(host, 443, self.faulty, monkeypatch)
        # apprise knows authorities by the environment only.
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.file))
        trust = {"http_config": {"tls_config": {"ca_file": str(authority.file)}}}
        own: dict[str, dict[str, Any]] = {
            "webhook": {"url": url, **trust},
            "slack": {"api_url": url},
            # What still fires is told again, which is no attempt at anything that failed.
            "alertmanager": {"url": url, "resend": "1d", **trust},
        }
        self.settings = own[kind] | {"timeout": "1s" if "never" in what else "10m"}

    def messages(self) -> list[Message]:
        """As they were taken."""
        return [READERS[self.kind](one) for one in self.faulty.taken]

    def told(self) -> list[tuple[str, str]]:
        """(alert, status), as they were taken."""
        return [one for told, _, _ in self.messages() for one in told]


Message = tuple[list[tuple[str, str]], str, bool]
"""(alert, status) of each alert; the message's id or ""; whether it may be a repeat, as it says."""


def read_webhook(one: Taken) -> Message:
    told = [(one.body["commonLabels"]["alertname"], one.body["status"])]
    is_repeat = one.headers.get("x-stallwatch-repeat") == "possible"
    return told, one.headers["idempotency-key"], is_repeat


def read_slack(one: Taken) -> Message:
    (attachment,) = one.body["attachments"]
    status, name = re.findall(r"\[(\w+)\] (\w+)", attachment["title"])[0]
    ids = re.findall(r"message (\w{32})", attachment["text"])
    assert len(set(ids)) == 1
    return [(name, status.lower())], ids[0], "This may be a repeat" in attachment["text"]


def read_alertmanager(one: Taken) -> Message:
    """What has ended ended in 2023; what fires ends in times to come."""
    told = [
        (alert["labels"]["alertname"], "resolved" if "2023" in alert["endsAt"] else "firing")
        for alert in one.body
    ]
    return told, "", False


READERS = {"webhook": read_webhook, "slack": read_slack, "alertmanager": read_alertmanager}


@pytest.fixture
def place(kind: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    made = Place(kind, what, tmp_path, monkeypatch)
    yield made
    made.faulty.close()


def tell_all(place: Place, hook: Any, make_agent: Any, support: Any) -> tuple[Any, Any]:
    """Two alerts and the end of one; the other receiver hears all, and this one is not mended."""
    config = support.configured(
        bad=[(place.kind, place.settings)], good=[("webhook", {"url": hook.url})]
    )
    agent = make_agent(config)
    one, other = support.firing("One"), support.firing("Other")
    agent.fire(one, other)
    hook.wait_for(2)
    agent.fire(support.resolved(one))
    hook.wait_for(3)
    messages = [json.loads(body) for _, body in hook.received]
    good = [(said["commonLabels"]["alertname"], said["status"]) for said in messages]
    assert good.index(("One", "firing")) < good.index(("One", "resolved"))
    return agent, good


def hears_all(place: Place, agent: Any, good: list[tuple[str, str]]) -> None:
    """Once it is mended it has all that the other one has, in order."""
    place.faulty.mend()
    agent.settle("delivered", 6)
    bad = list(dict.fromkeys(place.told()))
    assert sorted(bad) == sorted(good)
    assert bad.index(("One", "firing")) < bad.index(("One", "resolved"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("what", "reason", "end"), TABLE, ids=[row[0] for row in TABLE])
def test_a_receiver_that_fails_hears_all_in_the_end_and_holds_up_nobody(
    place: Place, reason: str, end: str, hook: Any, make_agent: Any, support: Any
) -> None:
    agent, good = tell_all(place, hook, make_agent, support)
    faulty = place.faulty
    assert faulty.taken == []
    if end == GIVEN_UP:
        # The end of what it never heard of is not sent either.
        agent.settle("failed", 2)
        assert ("bad", "firing", "rejected") in agent.rows("failed")
        assert all(one.detail.startswith(f"{reason}: ") for one in agent.entries("failed"))
        assert faulty.asked == 2
        return
    name = "stallwatch_notify_retries_total"
    while not agent.sample(name, receiver="bad", reason=reason):
        agent.settle("pending", 1)
    # Nothing else was ever the reason.
    assert agent.sample(name, receiver="bad") <= agent.sample(name, receiver="bad", reason=reason)
    hears_all(place, agent, good)
    assert len(faulty.taken) == 3
    if place.kind != "alertmanager":
        assert len({own for _, own, _ in place.messages()}) == 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["it is slow"])
def test_one_that_answers_late_but_in_time_hears_each_message_once(
    place: Place, hook: Any, make_agent: Any, support: Any
) -> None:
    agent, good = tell_all(place, hook, make_agent, support)
    # The first one is still under way, and nothing else was sent to it.
    assert place.faulty.asked <= 1
    hears_all(place, agent, good)
    assert len(place.faulty.taken) == place.faulty.asked == 3
    assert not any(is_repeat for _, _, is_repeat in place.messages())
    assert agent.sample("stallwatch_notify_retries_total", receiver="bad") == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["it is slow"])
def test_one_that_answers_too_late_is_told_again_under_the_same_id_and_that_it_may_be_a_repeat(
    place: Place, hook: Any, make_agent: Any, support: Any
) -> None:
    place.settings["timeout"] = "1s"
    agent, good = tell_all(place, hook, make_agent, support)
    name = "stallwatch_notify_retries_total"
    while agent.sample(name, receiver="bad", reason="timeout") < 3:
        agent.settle("pending", 1)
    hears_all(place, agent, good)
    assert len(place.told()) > len(set(place.told())) == 3
    if place.kind == "alertmanager":
        # It is told of states: the same one twice is one.
        return
    messages = place.messages()
    assert len({own for _, own, _ in messages}) == 3
    for position, (told, own, is_repeat) in enumerate(messages):
        had = [earlier for earlier, its, _ in messages[:position] if its == own]
        assert is_repeat == bool(had)
        assert all(earlier == told for earlier in had)


def test_the_table_of_the_documentation_is_this_one() -> None:
    text = DOCS.read_text(encoding="utf-8")
    _, _, rest = text.partition("| a receiver over HTTP | reason | its message is |\n")
    rows = re.findall(r"^\| (.+?) \| `(.+?)` \| (.+?) \|$", rest.partition("\n\n")[0], re.MULTILINE)
    assert rows == TABLE
