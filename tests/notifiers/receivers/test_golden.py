"""What each service is sent for one and the same group, held against files in `golden/`.

With STALLWATCH_WRITE_GOLDEN=1 the files are written anew: look at what changed before you commit.
"""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from notifiers.messages.hypertext import html
from notifiers.messages.plain import text
from notifiers.receivers.webhook import payload
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
