"""A group that is told in several messages: each alert in one of them, or counted in the last."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from notifiers.messages.parting import Progress, part
from notifiers.receivers.apprise import AppriseConfig, AppriseReceiver
from notifiers.receivers.apprise_limits import limit_of
from notifiers.receivers.receiver import SendError
from notifiers.receivers.slack import SlackConfig
from notifiers.slack.attachment import SlackWording
from notifiers.slack.places import Places
from notifiers.slack.web import SlackTarget
from tests.notifiers.played import URLS, group, taken
from tests.notifiers.receivers.test_services import longest_text

if TYPE_CHECKING:
    from notifiers.notification import Notification

CHATS = [name for name in URLS if name != "pagerduty"]
TEXT = "{{ range .Alerts }}- Slow {{ .Labels.rank }};\n{{ end }}"


def crowd(support: Any, count: int) -> Notification:
    alerts = tuple(
        support.firing("RankSlow", rank=str(rank), severity="warning") for rank in range(count)
    )
    return replace(group(support), alerts=alerts, possible_repeat=False)


def told(services: Any) -> list[str]:
    """All that the services were sent, as text."""
    return [
        json.dumps(json.loads(body), ensure_ascii=False).replace("\\\\", "")
        for _, body in services.received
    ]


def ranks(texts: list[str], pattern: str) -> list[int]:
    found = [match for text in texts for match in re.finditer(pattern, text)]
    return [int(next(filter(None, match.groups()))) for match in found]


def counted(texts: list[str]) -> int:
    return sum(ranks(texts, r"and (\d+) more: "))


@pytest.mark.parametrize(
    ("name", "count", "own"),
    [
        *((name, count, {}) for name in CHATS for count in (1, 60, 300)),
        *((name, 300, {"text": TEXT}) for name in CHATS),
        ("wecom", 1000, {}),
        ("wecom", 1000, {"text": TEXT}),
    ],
)
def test_every_alert_is_told_once_or_counted(
    name: str, count: int, own: dict[str, str], services: Any, support: Any
) -> None:
    from apprise import Apprise

    config = AppriseConfig.model_validate({"url": URLS[name], "max_messages": 5, **own})
    (target,) = AppriseReceiver(config).targets()
    target.send(crowd(support, count), 30)
    texts = told(services)
    # An alert by itself has its name in the title and its rank among the facts.
    shown = ranks(texts, r"Slow (\d+);" if own else r"Slow rank (\d+)\b|Ranks: +(\d+)")
    assert len(set(shown)) + counted(texts) == count
    assert sorted(set(shown)) == list(range(len(set(shown))))
    assert 1 <= len(texts) <= 5
    assert len(texts) == 1 or f"(1/{len(texts)})" in texts[0]
    limit = limit_of(Apprise.instantiate(URLS[name]))
    assert all(longest_text(json.loads(body)) <= limit for _, body in services.received)


def test_a_retry_goes_on_where_it_was(services: Any, support: Any) -> None:
    config = AppriseConfig.model_validate({"url": URLS["discord"], "max_messages": 4})
    (target,) = AppriseReceiver(config).targets()
    services.replies = [taken, support.status(503)]
    message = crowd(support, 1000)
    with pytest.raises(SendError):
        target.send(message, 30)
    target.send(replace(message, possible_repeat=True, attempt=2), 30)
    first, refused, *others = told(services)
    numbers = [re.findall(r"\((\d/4)\)", text)[0] for text in (first, refused, *others)]
    assert numbers == ["1/4", "2/4", "2/4", "3/4", "4/4"]
    kept = [first, *others]
    assert len(set(ranks(kept, r"Slow rank (\d+)\b"))) + counted(kept) == 1000
    target.send(replace(message, id="another"), 30)
    assert "(1/4)" in told(services)[5]


def test_slacks_own_way_splits_too(services: Any, support: Any) -> None:
    from engine.config.message_templates import MessageTemplate

    target = SlackTarget(
        url="",
        token="xoxb-1",
        channel="#ops",
        look={},
        wording=SlackWording(text=MessageTemplate(TEXT.replace("Slow", "Slow" * 10))),
        strategy="new",
        places=Places(),
        most_messages=3,
    )
    target.send(crowd(support, 1000), 30)
    texts = told(services)
    assert len(texts) == 3
    assert len(set(ranks(texts, r"Slow (\d+);"))) + counted(texts) == 1000


def test_an_incident_is_one(services: Any, support: Any) -> None:
    config = AppriseConfig.model_validate({"url": URLS["pagerduty"], "max_messages": 5})
    (target,) = AppriseReceiver(config).targets()
    target.send(crowd(support, 100), 30)
    assert len(services.received) == 1


def test_a_part_has_at_least_one_alert(support: Any) -> None:
    message = crowd(support, 5)
    assert [len(one) for one in part(message, 3, lambda _: 0)] == [1, 1, 3]
    assert [len(one) for one in part(message, 1, lambda _: 2)] == [5]
    assert [len(one) for one in part(message, 9, lambda _: 2)] == [2, 2, 1]
    progress = Progress()
    parts = [one.part for one in progress.left(message, lambda: part(message, 3, lambda _: 2))]
    assert parts == [(1, 3), (2, 3), (3, 3)]


def test_how_many_messages_has_bounds() -> None:
    for count in (0, 21):
        with pytest.raises(ValidationError, match="max_messages"):
            AppriseConfig.model_validate({"url": URLS["discord"], "max_messages": count})
    bot = {"token": "xoxb-1234567890-1234567890-abc", "channel": "#ops"}
    with pytest.raises(ValidationError, match="max_messages must be 1"):
        SlackConfig.model_validate({**bot, "message_strategy": "update", "max_messages": 2})
