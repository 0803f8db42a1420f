"""Mail through a real SMTP server."""

from __future__ import annotations

import io
import logging
import shutil
import socket
import ssl
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from aiosmtpd.smtp import AuthResult, LoginPassword
from pydantic import ValidationError

from notifiers.notification import Notification
from notifiers.receivers.apprise import AppriseConfig, AppriseReceiver
from notifiers.receivers.email import EmailConfig, EmailReceiver
from notifiers.receivers.receiver import SendError
from tests.notifiers.mailbox import settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.notifiers.mailbox import Mailbox


def send(alert: Any, **own: Any) -> None:
    receiver = EmailReceiver(EmailConfig.model_validate(own))
    labels = alert.labels.to_dict()
    for target in receiver.targets():
        target.send(Notification("the-id", "ops", "firing", labels, (alert,)), 30)


def test_a_mail_has_text_and_html_and_the_id(
    mailbox: Mailbox, serve_mail: Any, support: Any
) -> None:
    send(support.firing(), **settings(serve_mail()))
    (message,) = mailbox.messages()
    assert message["Subject"] == "[FIRING] TcpRetransmitSpike torchrun:job42"
    assert message["X-Stallwatch-Id"] == "the-id"
    assert "stallwatch@example.com" in message["From"]
    assert message["To"] == "oncall@example.com"
    text = message.get_body(("plain",)).get_content()
    html = message.get_body(("html",)).get_content()
    for shown in ("Many retransmits", "torchrun:job42", "10.0.0.1:5000 → 10.0.0.2:6000", "12"):
        assert shown in text
        assert shown in html


@pytest.mark.parametrize(
    # An address in brackets, root@[127.0.0.1], is read by newer Pythons only.
    "address",
    ["a@b.c", "oncall@mail", "on.call+gpu@mail", "o'neil@mx1"],
)
def test_an_intranet_or_a_short_host_is_an_address_like_any_other(
    mailbox: Mailbox, serve_mail: Any, support: Any, address: str
) -> None:
    sender = f"Agent on node 1 <{address}>"
    send(support.firing(), **settings(serve_mail(), to=address) | {"from": sender})
    ((envelope, message),) = zip(mailbox.envelopes, mailbox.messages(), strict=True)
    assert (envelope.mail_from, envelope.rcpt_tos) == (address, [address])
    assert message["To"].addresses[0].addr_spec == address
    assert message["From"].addresses[0].display_name == "Agent on node 1"
    assert message["From"].addresses[0].addr_spec == address


@pytest.mark.parametrize(
    ("setting", "text", "address", "mend"),
    [
        ("to", "ünï@example.com", "ünï@example.com", "before the @ must be ASCII"),
        ("from", "x <oncall@bücher.example>", "oncall@bücher.example",
         "write it as DNS knows it: oncall@xn--bcher-kva.example"),
        ("to", "a@b.c, on@call@example.com", "", "expected mail addresses, such as"),
        ("to", "oncall@-mail", "oncall@-mail", "expected NAME@HOST"),
    ],
)  # fmt: skip
def test_an_address_that_mail_does_not_carry_is_named_with_its_setting_and_the_mend(
    setting: str, text: str, address: str, mend: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        EmailConfig.model_validate(settings("mail:25") | {setting: text})
    (detail,) = caught.value.errors()
    assert detail["loc"] == (setting,)
    assert address in detail["msg"]
    assert mend in detail["msg"]


def test_no_label_becomes_a_header(mailbox: Mailbox, serve_mail: Any, support: Any) -> None:
    evil = "x\r\nBcc: everyone@example.com\r\n\r\nbody"
    send(support.firing(evil, task_id=evil), **settings(serve_mail()))
    (message,) = mailbox.messages()
    assert message["Bcc"] is None
    assert mailbox.envelopes[0].rcpt_tos == ["oncall@example.com"]
    assert message["Subject"].startswith("[FIRING] x Bcc: everyone@example.com body")


def test_one_address_that_fails_does_not_make_the_other_hear_twice(
    mailbox: Mailbox, serve_mail: Any, make_agent: Any, support: Any
) -> None:
    mailbox.refusals["full@example.com"] = "452 mailbox full"
    own = settings(serve_mail(), to="oncall@example.com, full@example.com")
    agent = make_agent(support.configured(ops=[("email", own)]))
    agent.fire(support.firing())
    agent.settle("delivered", 1)
    while not agent.sample("stallwatch_notify_retries_total", reason="smtp_452"):
        agent.settle("pending", 1)
    mailbox.refusals.clear()
    agent.settle("delivered", 2)
    told = sorted(envelope.rcpt_tos[0] for envelope in mailbox.envelopes)
    assert told == ["full@example.com", "oncall@example.com"]
    assert len({message["X-Stallwatch-Id"] for message in mailbox.messages()}) == 2


def test_a_recipient_that_does_not_exist_is_refused_for_good(
    mailbox: Mailbox, serve_mail: Any, support: Any
) -> None:
    mailbox.refusals["oncall@example.com"] = "550 no such user"
    with pytest.raises(SendError, match="no such user") as caught:
        send(support.firing(), **settings(serve_mail()))
    assert (caught.value.reason, caught.value.permanent) == ("smtp_550", True)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    path = tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", path, "-out", path.with_suffix(".crt")),
        ],
        check=True,
        capture_output=True,
    )
    return path


def test_tls_and_the_password_are_used(
    mailbox: Mailbox,
    serve_mail: Any,
    certificate: Path,
    support: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logins: list[tuple[bytes, bytes]] = []

    def check(_server: Any, _session: Any, _envelope: Any, _kind: Any, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"hunter2/s3cret", handled=False)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.with_suffix(".crt"), certificate)
    where = serve_mail(
        tls_context=context, require_starttls=True, auth_required=True, authenticator=check
    )
    own = settings(
        where, require_tls=True, auth_username="me@example.com", auth_password="hunter2/s3cret"
    )
    with pytest.raises(SendError) as caught:
        send(support.firing(), **own)
    assert caught.value.reason == "tls"
    assert logins == []
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_suffix(".crt")))
    send(support.firing(), **own)
    assert logins == [(b"me@example.com", b"hunter2/s3cret")]
    assert len(mailbox.envelopes) == 1
    with pytest.raises(SendError) as caught:
        send(support.firing(), **own | {"auth_password": "wr0ng-s3cret"})
    assert (caught.value.reason, caught.value.permanent) == ("smtp_535", True)
    assert "s3cret" not in str(caught.value)


def test_a_server_without_starttls_gets_no_mail_when_tls_is_required(
    mailbox: Mailbox, serve_mail: Any, support: Any
) -> None:
    with pytest.raises(SendError, match="STARTTLS"):
        send(support.firing(), **settings(serve_mail(), require_tls=True))
    assert mailbox.envelopes == []


def test_nobody_listening_and_a_hanging_server_are_passing_failures(support: Any) -> None:
    with pytest.raises(SendError, match="Connection refused") as caught:
        send(support.firing(), **settings("127.0.0.1:1"))
    assert (caught.value.reason, caught.value.permanent) == ("connection", False)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        own = EmailConfig.model_validate(settings(f"127.0.0.1:{silent.getsockname()[1]}"))
        alert = support.firing()
        (target,) = EmailReceiver(own).targets()
        with pytest.raises(SendError) as caught:
            target.send(Notification("i", "ops", "firing", alert.labels.to_dict(), (alert,)), 0.2)
    assert (caught.value.reason, caught.value.permanent) == ("timeout", False)


def test_apprise_urls_are_split_by_target(
    mailbox: Mailbox, serve_mail: Any, make_agent: Any, support: Any
) -> None:
    url = f"mailto://{serve_mail()}/a@example.com/b@example.com?from=s@example.com"
    targets = AppriseReceiver(AppriseConfig.model_validate({"url": url})).targets()
    assert [target.label for target in targets] == ["a@example.com", "b@example.com"]
    agent = make_agent(support.configured(ops=[("apprise", {"url": url})]))
    agent.fire(support.firing())
    agent.settle("delivered", 2)
    told = sorted(envelope.rcpt_tos for envelope in mailbox.envelopes)
    assert told == [["a@example.com"], ["b@example.com"]]
    assert mailbox.messages()[0].get_body(("html",)) is not None


@pytest.fixture
def verbose_log() -> Iterator[io.StringIO]:
    """All that reaches the root logger, as an agent with a verbose log would write it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.DEBUG)
    root.addHandler(handler)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def test_secrets_appear_in_no_log_and_no_error(
    hook: Any, serve_mail: Any, make_agent: Any, support: Any, verbose_log: io.StringIO
) -> None:
    own = settings(serve_mail(), auth_username="user", auth_password="s3cret-word")
    agent = make_agent(
        support.configured(
            mail=[("email", own)],
            refused=[("email", own | {"smarthost": "127.0.0.1:1"})],
            hook=[("webhook", {"url": "http://127.0.0.1:1/s3cret-word?a=s3cret-word"})],
            failing=[("webhook", {"url": f"{hook.url}/s3cret-word"})],
            chat=[("apprise", {"url": "json://user:s3cret-word@127.0.0.1:1/s3cret-word"})],
        )
    )
    hook.always = support.status(500)
    agent.fire(support.firing())
    for receiver in ("mail", "refused", "hook", "failing", "chat"):
        while not (
            agent.sample("stallwatch_notify_retries_total", receiver=receiver)
            + agent.sample("stallwatch_notify_failed_total", receiver=receiver)
        ):
            agent.rows("pending")
    agent.delivery.stop(support.PATIENCE)
    assert "not taken yet" in verbose_log.getvalue()
    assert "s3cret-word" not in verbose_log.getvalue()
    assert "s3cret-word" not in str(agent.delivery.samples())
    for state in ("pending", "failed"):
        assert "s3cret-word" not in str(agent.entries(state))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"smarthost": "mail.example.com"}, "expected host:port"),
        ({"to": "nobody"}, "expected mail addresses"),
        ({"from": ""}, "expected mail addresses"),
        ({"auth_password": ["s3cret"]}, "should be a valid string"),
    ],
)
def test_a_bad_setting_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message) as caught:
        EmailConfig.model_validate(settings("127.0.0.1:25", **changes))
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("url", ["nowhere", "nope://s3cret-word", "slack://s3cret-word"])
def test_a_url_that_apprise_does_not_know_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValidationError, match="apprise") as caught:
        AppriseConfig.model_validate({"url": url})
    assert "s3cret-word" not in str(caught.value)
