"""A message as a Slack attachment: a receiver's own templates, or the built-in text.

https://docs.slack.dev/messaging/formatting-message-text/ and the attachment's fields in
https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.config.message_templates import MessageTemplate
from notifiers.messages.composition import compose
from notifiers.messages.escaped import (
    SlackText,
    calling_nobody,
    cut_for_slack,
    escaped_for_slack,
)
from notifiers.messages.folding import Assembled
from notifiers.messages.order import number_of, subject
from notifiers.messages.plain import laid_out
from notifiers.messages.templated import WordingError, in_trouble, line_of, text_of
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from notifiers.notification import Notification

# As apprise is given it; nobody reads more in a chat.
MAX_TEXT_BYTES = 9_900
MAX_FIELD_BYTES = 2_000
_MARKED = ("fallback", "pretext", "text", "fields")
_COLORS = {"firing": "danger", "resolved": "good"}
# Addresses; anything else is none that a reader should follow.
_LINKS = frozenset({"title_link", "image_url", "thumb_url", "icon_url"})


@dataclass(frozen=True, slots=True)
class Attachment:
    """As JSON, and how many alerts stand in its text.

    `failed`: it is the built-in one, for a template's fault.
    """

    body: dict[str, Any]
    shown: int
    failed: bool = False


@dataclass(frozen=True, slots=True)
class SlackField:
    """A short text under a heading; `short` ones stand side by side."""

    title: MessageTemplate
    value: MessageTemplate
    short: bool = False


@dataclass(frozen=True, slots=True)
class SlackWording:
    """A receiver's templates; an empty one leaves the built-in text, or leaves it out.

    `lines`: those of one line, by the attachment's names.
    """

    title: MessageTemplate = field(default_factory=MessageTemplate)
    text: MessageTemplate = field(default_factory=MessageTemplate)
    lines: Mapping[str, MessageTemplate] = field(default_factory=dict)
    fields: tuple[SlackField, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.title or self.text or self.fields or any(self.lines.values()))

    def attachment(self, notification: Notification, receiver: str) -> Attachment:
        """The attachment. A template that fails makes it the built-in one, which says so."""
        try:
            return self._own(notification)
        except WordingError as error:
            notification = in_trouble(notification, error, receiver)
        builtin = SlackWording()._own(notification)  # noqa: SLF001 - of its own class
        return replace(builtin, failed=True)

    def _own(self, notification: Notification) -> Attachment:
        title = calling_nobody(escaped_for_slack(subject(notification)))
        shown: dict[str, Any] = {
            "title": title,
            "fallback": title,
            "color": _COLORS[notification.status],
            "mrkdwn_in": [*_MARKED] if self.text else ["pretext"],
        }
        if self.title:
            shown["title"] = _line("title", self.title, notification)
        for name, template in self.lines.items():
            line = _line(name, template, notification)
            if line and (name not in _LINKS or line.startswith(("http://", "https://"))):
                shown[name] = line
        body = self._text(notification)
        shown["text"] = body.text
        shown["title"] += number_of(notification)
        if self.fields:
            shown["fields"] = [
                {
                    "title": _line("fields", one.title, notification),
                    "value": _text("fields", one.value, notification, MAX_FIELD_BYTES).text,
                    "short": one.short,
                }
                for one in self.fields
            ]
        return Attachment(shown, body.shown)

    def _text(self, notification: Notification) -> Assembled:
        if self.text:
            return _text("text", self.text, notification, MAX_TEXT_BYTES)
        message, room = compose(notification), MAX_TEXT_BYTES
        while True:
            laid = laid_out(message, room, titled=False)
            text = calling_nobody(escaped_for_slack(laid.text))
            length = len(text.encode())
            if length <= MAX_TEXT_BYTES:
                return Assembled(text, laid.shown)
            room = min(room - 1, room * MAX_TEXT_BYTES // length)


def _line(setting: str, template: MessageTemplate, notification: Notification) -> str:
    return line_of(setting, template, notification, SlackText, cut_for_slack)


def _text(
    setting: str, template: MessageTemplate, notification: Notification, limit: int
) -> Assembled:
    return text_of(
        setting,
        template,
        notification,
        SlackText,
        lambda text: len(text.encode()) <= limit,
        cuttable=limit,
        cutter=cut_for_slack,
    )
