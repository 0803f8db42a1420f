"""What each service is sent for one and the same group, held against files in `golden/`.

With STALLWATCH_WRITE_GOLDEN=1 the files are written anew: look at what changed before you commit.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from engine.config.message_templates import MessageTemplate
from notifiers.messages.hypertext import html
from notifiers.messages.plain import text
from notifiers.messages.template_data import template_data
from notifiers.receivers.apprise import AppriseConfig, AppriseReceiver
from notifiers.receivers.webhook import payload
from notifiers.slack.attachment import SlackWording
from rules.templates.html_places import HtmlPlaces
from tests.notifiers.played import URLS, group, send

GOLDEN = Path(__file__).parents[1] / "golden"


def held_against(name: str, shown: str) -> None:
    path = GOLDEN / name
    if os.environ.get("STALLWATCH_WRITE_GOLDEN"):
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")


def test_plain_text(support: Any) -> None:
    held_against("text.txt", text(group(support)) + "\n")


def test_the_html_of_a_mail(support: Any) -> None:
    held_against("mail.html", html(group(support)) + "\n")


def test_the_webhook(support: Any) -> None:
    body = payload(group(support), max_alerts=3)
    held_against("webhook.json", json.dumps(body, indent=2, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("name", URLS)
def test_what_apprise_posts(name: str, services: Any, support: Any) -> None:
    if tuple(map(int, version("apprise").split(".")[:2])) < (2, 3):
        pytest.skip("the files show what apprise 2.3 posts")
    send(URLS[name], group(support))
    ((_, body),) = services.received
    shown = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    held_against(f"{name}.json", shown + "\n")


TITLE = '{{ template "slack.default.title" . }}'
TEXT = """\
*{{ .CommonLabels.task_id }}* on {{ .ExternalURL }}
{{ range .Alerts.Firing }}- {{ .Labels.alertname }}{{ with .Labels.rank }} rank {{ . }}{{ end }}: \
{{ .Annotations.summary }} ({{ .StartsAt | tz "Europe/Berlin" | date "15:04 MST" }})
{{ end }}"""


@pytest.mark.parametrize("name", URLS)
def test_what_a_service_is_sent_in_own_words(name: str, services: Any, support: Any) -> None:
    if tuple(map(int, version("apprise").split(".")[:2])) < (2, 3):
        pytest.skip("the files show what apprise 2.3 posts")
    own = {"url": URLS[name], "title": TITLE, "text": TEXT}
    (target,) = AppriseReceiver(AppriseConfig.model_validate(own)).targets()
    target.send(group(support), 30)
    ((_, body),) = services.received
    shown = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    held_against(f"own_words/{name}.json", shown + "\n")


def test_a_slack_attachment_in_own_words(support: Any) -> None:
    wording = SlackWording(MessageTemplate(TITLE), MessageTemplate(TEXT))
    shown = json.dumps(
        wording.attachment(group(support), "Slack").body, indent=2, ensure_ascii=False
    )
    held_against("own_words/slack_attachment.json", shown + "\n")


JINJA_TITLE = "[{{ status|upper }}] {{ group_labels.task_id }}"
JINJA_TEXT = """\
*{{ common_labels.task_id }}* on {{ external_url }}
{% for alert in alerts.firing %}
- {{ alert.labels.alertname }}{% if alert.labels.rank %} rank {{ alert.labels.rank }}{% endif %}: \
{{ alert.annotations.summary }} ({{ alert.starts_at|tz("Europe/Berlin")|date("15:04 MST") }})
{% endfor %}"""


def test_a_slack_attachment_in_jinja(support: Any) -> None:
    title, body = (MessageTemplate(one, jinja=True) for one in (JINJA_TITLE, JINJA_TEXT))
    shown = SlackWording(title, body).attachment(group(support), "Slack").body
    held_against(
        "own_words/slack_jinja.json", json.dumps(shown, indent=2, ensure_ascii=False) + "\n"
    )


def test_a_slack_attachment_with_the_built_in_text(support: Any) -> None:
    shown = SlackWording().attachment(group(support), "Slack").body
    held_against("slack_attachment.json", json.dumps(shown, indent=2, ensure_ascii=False) + "\n")


def test_the_html_of_a_mail_by_alertmanagers_name(support: Any) -> None:
    template = MessageTemplate('{{ template "email.default.html" . }}')
    told = group(support)
    told = replace(told, alerts=told.alerts[-3:])
    held_against("own_words/mail.html", template.expand(template_data(told), HtmlPlaces()) + "\n")
