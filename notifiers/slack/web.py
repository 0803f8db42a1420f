"""Slack's two ways in: an incoming webhook, and the Web API with a bot's token.

The API can edit a message (`chat.update`) and answer it in its thread (`chat.postMessage` with
`thread_ts`); a webhook can do neither, since it never says which message it made
(https://docs.slack.dev/reference/methods/chat.postMessage,
https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks/).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import requests

from notifiers.messages.parting import Progress, part
from notifiers.receivers.apprise_answers import MAX_BODY_BYTES, refuse
from notifiers.receivers.http_config import Identity
from notifiers.receivers.http_post import JSON_HEADERS, ask
from notifiers.receivers.receiver import SendError
from notifiers.receivers.urllib3_log import silence_urllib3
from notifiers.slack.places import Place
from rules.templates.jinja import one_message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.alerts.alert import Alert
    from notifiers.notification import Notification
    from notifiers.slack.attachment import SlackWording
    from notifiers.slack.places import Places

Strategy: TypeAlias = Literal["new", "update", "thread"]
API = "https://slack.com/api"
# Slack's words for a message that is gone or too old: there is nothing to edit or to answer.
_GONE = frozenset({
    "message_not_found", "cant_update_message", "edit_window_closed", "thread_not_found",
    "channel_not_found", "msg_too_old",
})  # fmt: skip


class SlackTarget:
    """One channel. `url` is a webhook's, or "" with a bot's `token`. `look`: name and icon.

    `places`: where the groups' messages are, kept by the strategies that need it. `most_messages`:
    into how many a group may be split.
    """

    def __init__(
        self,
        *,
        url: str,
        token: str,
        channel: str,
        look: Mapping[str, str],
        wording: SlackWording,
        strategy: Strategy,
        places: Places,
        most_messages: int = 1,
    ) -> None:
        silence_urllib3()
        self.label = f"Slack {channel}".rstrip()
        self.places = places
        self.strategy = strategy
        self.template_failures = 0
        self._url = url
        self._channel = channel
        self._look = {name: text for name, text in look.items() if text}
        self._wording = wording
        # Proxies and certificates are the environment's, as they are for what apprise asks.
        self._most_messages = most_messages
        self._progress = Progress()
        self._session = requests.Session()
        self._session.auth = Identity(f"Bearer {token}" if token else "")

    def send(self, notification: Notification, timeout_seconds: float) -> None:
        """Post the message, or edit or answer the group's. Raises SendError."""
        with one_message():
            for one in self._progress.left(notification, lambda: self._parts(notification)):
                self._send_one(one, timeout_seconds)

    def _parts(self, notification: Notification) -> tuple[tuple[Alert, ...], ...]:
        return part(
            notification,
            self._most_messages,
            lambda one: self._wording.attachment(one, self.label).shown,
        )

    def _send_one(self, notification: Notification, timeout_seconds: float) -> None:
        attachment = self._wording.attachment(notification, self.label)
        self.template_failures += attachment.failed
        body = {**self._look, "attachments": [attachment.body]}
        if self._url:
            shown = {"channel": self._channel} if self._channel else {}
            self._ask(self._url, {**shown, **body}, timeout_seconds)
            return
        self._by_the_api(notification, body, timeout_seconds)

    def _by_the_api(
        self, notification: Notification, body: dict[str, Any], timeout_seconds: float
    ) -> None:
        key = notification.group_key
        known = None if self.strategy == "new" else self.places.known.get(key)
        place = self._continue(known, body, timeout_seconds)
        if place is None:
            known = None
            answer = self._call(
                "chat.postMessage", {"channel": self._channel, **body}, timeout_seconds
            )
            place = Place(str(answer.get("channel") or self._channel), str(answer.get("ts") or ""))
        if self.strategy != "new":
            # The next message after the end is a new one.
            begun = place if known is None else known
            number, total = notification.part
            over = (notification.status == "resolved" and number == total) or not begun.ts
            self.places.put(key, None if over else begun)

    def _continue(
        self, known: Place | None, body: dict[str, Any], timeout_seconds: float
    ) -> Place | None:
        """Edit or answer a message; None: there is none to edit, so that a new one is needed."""
        if known is None:
            return None
        try:
            if self.strategy == "update":
                asked = {"channel": known.channel, "ts": known.ts, **body}
                self._call("chat.update", asked, timeout_seconds)
            else:
                asked = {"channel": known.channel, "thread_ts": known.ts, **body}
                self._call("chat.postMessage", asked, timeout_seconds)
        except _GoneError:
            return None
        return known

    def _call(self, method: str, body: dict[str, Any], timeout_seconds: float) -> dict[str, Any]:
        return self._ask(f"{API}/{method}", body, timeout_seconds)

    def _ask(self, url: str, body: dict[str, Any], timeout_seconds: float) -> dict[str, Any]:
        """The answer's JSON, {} for none. Raises SendError when it is a refusal."""
        said = ask(
            self._session,
            url,
            timeout_seconds,
            body=json.dumps(body, ensure_ascii=False).encode(),
            headers={**JSON_HEADERS, "Content-Type": "application/json; charset=utf-8"},
            answer_bytes=MAX_BODY_BYTES,
        )
        try:
            answer = json.loads(said)
        except ValueError:
            answer = {}
        if not isinstance(answer, dict):
            return {}
        if answer.get("ok") is False:
            word = str(answer.get("error"))
            if word in _GONE:
                raise _GoneError("refused", f"Slack answers with {word}", permanent=True)
            refuse(word)
        return answer


class _GoneError(SendError):
    """The message is not there any more, or not to be edited."""
