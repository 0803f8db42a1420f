"""Mail and apprise's services in a receiver's own words."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from notifiers.receivers.apprise import AppriseConfig, AppriseReceiver
from notifiers.receivers.email import EmailConfig, EmailReceiver
from tests.notifiers.mailbox import settings
from tests.notifiers.played import URLS, group

if TYPE_CHECKING:
    from tests.notifiers.mailbox import Mailbox

EVIL = 'x"><script>alert(1)</script>\r\nBcc: everyone@example.com'


def mail(told: Any, **own: Any) -> None:
    for target in EmailReceiver(EmailConfig.model_validate(own)).targets():
        target.send(told, 30)


def test_a_mail_in_own_words(mailbox: Mailbox, serve_mail: Any, support: Any) -> None:
    mail(
        group(support),
        **settings(serve_mail()),
        headers={
            "subject": "[{{ .Status }}] {{ .GroupLabels.task_id }}",
            "X-Team": "{{ .Receiver }}",
        },
        html='<h1 title="{{ .Receiver }}">{{ len .Alerts.Firing }}</h1>'
        "{{ range .Alerts }}<p>{{ .Labels.alertname }}</p>{{ end }}",
    )
    (message,) = mailbox.messages()
    assert message["Subject"] == "[firing] torchrun:job42"
    assert message["X-Team"] == "oncall"
    shown = message.get_body(("html",)).get_content()
    assert '<h1 title="oncall">62</h1>' in shown
    assert shown.count("<p>RankSlow</p>") == 60
    assert "RankSlow" in message.get_body(("plain",)).get_content()


def test_nothing_of_a_label_becomes_a_header_or_markup(
    mailbox: Mailbox, serve_mail: Any, support: Any
) -> None:
    told = replace(group(support), alerts=(support.firing(EVIL, team=EVIL),))
    mail(
        told,
        **settings(serve_mail()),
        headers={"Subject": "{{ .CommonLabels.team }}", "X-Team": "{{ .CommonLabels.team }}"},
        html='<a href="{{ .CommonLabels.team }}" title="{{ .CommonLabels.team }}">'
        "{{ .CommonLabels.team }}</a>",
    )
    (message,) = mailbox.messages()
    assert message["Bcc"] is None
    assert message["To"] == "oncall@example.com"
    assert "<script" not in message.get_body(("html",)).get_content()


def test_a_long_html_counts_what_it_leaves_out(
    mailbox: Mailbox, serve_mail: Any, support: Any
) -> None:
    alerts = tuple(support.firing("RankSlow", rank=str(rank)) for rank in range(1000))
    each = "{{ range .Alerts }}<p>{{ printf `%500s` .Labels.rank }}</p>{{ end }}"
    html = f"<html><body>{each}</body></html>"
    mail(replace(group(support), alerts=alerts), **settings(serve_mail()), html=html)
    shown = mailbox.messages()[0].get_body(("html",)).get_content()
    said = shown.partition("<p>and ")[2].partition(" more: ")[0]
    assert shown.count("<p>") - 1 + int(said) == 1000
    assert shown.rstrip().endswith(f"<p>and {said} more: {said} RankSlow</p></body></html>")


def test_plain_text_goes_as_text(mailbox: Mailbox, serve_mail: Any, support: Any) -> None:
    mail(group(support), **settings(serve_mail()), text="{{ .Receiver }} <b>")
    (message,) = mailbox.messages()
    assert message.get_body(("plain",)).get_content().strip() == "oncall <b>"


@pytest.mark.parametrize(
    "own",
    [
        {"html": "{{ (index .Alerts 999).Labels }}"},
        {"html": "<script>{{ .Status }}</script>"},
        {"headers": {"Subject": "{{ (index .Alerts 999).Labels }}"}},
        {"text": "{{ (index .Alerts 999).Labels }}"},
    ],
)
def test_a_template_that_fails_costs_nobody_the_mail(
    own: dict[str, Any],
    mailbox: Mailbox,
    serve_mail: Any,
    support: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        mail(group(support), **settings(serve_mail()), **own)
    (message,) = mailbox.messages()
    shown = message.get_body(("html",)).get_content()
    assert "so this is the built-in message" in shown
    assert "Rank 9 is slow" in shown
    assert message["Subject"].startswith("[FIRING:62")
    assert "failed: " in caplog.text


def test_a_mail_in_jinja_takes_neither_header_nor_markup_from_a_label(
    mailbox: Mailbox, serve_mail: Any, support: Any
) -> None:
    told = replace(group(support), alerts=(support.firing(EVIL, team=EVIL),))
    mail(
        told,
        **settings(serve_mail()),
        headers={"Subject": {"jinja": "{{ common_labels.team }}\nBcc: x@example.com"}},
        html={"jinja": "<b title='{{ common_labels.team }}'>{{ common_labels.team }}</b>"},
    )
    (message,) = mailbox.messages()
    assert message["Bcc"] is None
    assert "<script" not in message.get_body(("html",)).get_content()
    assert "built-in" not in message.get_body(("html",)).get_content()


@pytest.mark.parametrize(
    "text", ["{{ alerts[999].labels }}", "{{ 'x' * 10**10 }}", "<script>{{ status }}</script>"]
)
def test_jinja_that_fails_costs_nobody_the_mail_and_counts(
    text: str, mailbox: Mailbox, serve_mail: Any, support: Any
) -> None:
    own = EmailConfig.model_validate(settings(serve_mail()) | {"html": {"jinja": text}})
    (target,) = EmailReceiver(own).targets()
    target.send(group(support), 30)
    (message,) = mailbox.messages()
    shown = message.get_body(("html",)).get_content()
    assert "so this is the built-in message" in shown
    assert "Rank 9 is slow" in shown
    assert getattr(target, "template_failures", 0) == 1


@pytest.mark.parametrize("name", ["X Team", "X-Team\r\nBcc", "", "X:"])
def test_a_header_needs_a_name(name: str) -> None:
    with pytest.raises(ValidationError, match="expected names of headers"):
        EmailConfig.model_validate(settings("h:25") | {"headers": {name: "x"}})


def apprise(name: str, told: Any, **own: Any) -> None:
    config = AppriseConfig.model_validate({"url": URLS[name], **own})
    (target,) = AppriseReceiver(config).targets()
    target.send(told, 30)


@pytest.mark.parametrize("name", URLS)
def test_every_service_takes_a_title_and_a_text(name: str, services: Any, support: Any) -> None:
    text = "{{ range .Alerts }}{{ .Labels.alertname }} {{ .Labels.rank }}\n{{ end }}"
    apprise(name, group(support), title="{{ .Status | toUpper }} {{ .Receiver }}", text=text)
    ((_, body),) = services.received
    shown = json.dumps(json.loads(body), ensure_ascii=False)
    assert "FIRING oncall" in shown
    assert "TaskStalled" in shown
    assert shown.count("RankSlow") + _more(shown) >= 60


def _more(shown: str) -> int:
    said = shown.partition("and ")[2].partition(" more: ")[0]
    return int(said) if said.isdecimal() else 0


@pytest.mark.parametrize("form", ["text", "html", "markdown"])
@pytest.mark.parametrize("name", ["slack", "discord", "teams", "feishu", "dingtalk"])
def test_label_values_are_no_markup(name: str, form: str, services: Any, support: Any) -> None:
    evil = "@everyone <!channel> <at user_id='all'> <@U1> [x](https://evil.example) <img src=x>"
    told = replace(group(support), alerts=(support.firing(evil),))
    text = "**{{ .CommonLabels.alertname }}**"
    apprise(name, told, title="{{ .CommonLabels.alertname }}", text=text, format=form)
    shown = services.received[0][1].decode() + json.dumps(
        json.loads(services.received[0][1]), ensure_ascii=False
    )
    for call in ("@everyone", "<!channel>", "<@U1>", "<at user", "<https://evil"):
        assert call not in shown, call
