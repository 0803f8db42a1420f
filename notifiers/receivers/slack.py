"""`slack_configs`, in Alertmanager's spelling.

The built-in message is sent by apprise. A message in the receiver's own words, and one that edits
or answers an earlier one, goes to Slack's own API: apprise escapes what a template's author means
as markup, and tells nobody which message it made.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator, model_validator

from engine.config.message_templates import MessageTemplate
from notifiers.receivers.apprise import split
from notifiers.receivers.receiver import MaxMessages, ReceiverSettings
from notifiers.slack.attachment import SlackField, SlackWording
from notifiers.slack.places import Places
from notifiers.slack.web import SlackTarget, Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from notifiers.receivers.receiver import Target

_LINES = ("title_link", "pretext", "fallback", "color", "footer", "image_url", "thumb_url")
_HOOK = re.compile(r"/services/([A-Za-z0-9]+)/([A-Za-z0-9]+)/([A-Za-z0-9]+)/?")
_CHANNEL = re.compile(r"[#@+]?[^\s,/#@+:]{1,80}")


class SlackFieldConfig(BaseModel):
    """One of `fields`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    title: MessageTemplate
    value: MessageTemplate
    short: bool | None = None


class SlackConfig(ReceiverSettings):
    """A webhook (`api_url`), or a bot's `token` with a `channel`.

    `message_strategy`: a message of its own for each notification, or what a group has told before
    is edited, or answered in its thread.
    """

    api_url: SecretStr | None = None
    token: SecretStr | None = None
    channel: str = ""
    username: str = ""
    icon_emoji: str = ""
    icon_url: str = ""
    title: MessageTemplate = MessageTemplate()
    title_link: MessageTemplate = MessageTemplate()
    pretext: MessageTemplate = MessageTemplate()
    text: MessageTemplate = MessageTemplate()
    fallback: MessageTemplate = MessageTemplate()
    color: MessageTemplate = MessageTemplate()
    footer: MessageTemplate = MessageTemplate()
    image_url: MessageTemplate = MessageTemplate()
    thumb_url: MessageTemplate = MessageTemplate()
    fields: tuple[SlackFieldConfig, ...] = ()
    short_fields: bool = False
    message_strategy: Strategy = "new"
    update_message: bool = False
    max_messages: MaxMessages = 1

    @property
    def strategy(self) -> Strategy:
        """`update_message` is the older name of `message_strategy: update`."""
        return "update" if self.update_message else self.message_strategy

    @property
    def wording(self) -> SlackWording:
        """The templates."""
        lines = {name: getattr(self, name) for name in _LINES if getattr(self, name)}
        fields = (
            SlackField(one.title, one.value, self.short_fields if one.short is None else one.short)
            for one in self.fields
        )
        return SlackWording(self.title, self.text, lines, tuple(fields))

    @field_validator("channel")
    @classmethod
    def _is_one_channel(cls, channel: str) -> str:
        if channel and not _CHANNEL.fullmatch(channel):
            raise ValueError("expected one channel such as #alerts, or a user such as @oncall")
        return channel

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if (self.api_url is None) == (self.token is None):
            raise ValueError("give either api_url (an incoming webhook) or token with channel")
        if self.token is not None and not self.channel:
            raise ValueError("a token needs a channel")
        if self.update_message and self.message_strategy == "thread":
            raise ValueError("update_message and message_strategy say different things; keep one")
        if self.token is None and self.strategy != "new":
            raise ValueError("only a bot can edit or answer its messages; give token and channel")
        if self.strategy == "update" and self.max_messages > 1:
            raise ValueError("one message is edited, so max_messages must be 1")
        try:
            split(self.apprise_url())
        except ValueError:
            what = "api_url or channel" if self.token is None else "token or channel"
            raise ValueError(f"{what} is not as Slack makes them") from None
        return self

    def apprise_url(self) -> str:
        """The same as apprise spells it. Raises ValueError."""
        user = f"{quote(self.username, safe='')}@" if self.username else ""
        channel = f"/{quote(self.channel, safe='#@')}".replace("#", "%23") if self.channel else ""
        if self.token is not None:
            return f"slack://{user}{quote(self.token.get_secret_value(), safe='')}{channel}/"
        parts = urlsplit("" if self.api_url is None else self.api_url.get_secret_value())
        found = _HOOK.fullmatch(parts.path)
        if parts.hostname != "hooks.slack.com" or found is None:
            raise ValueError(
                "expected https://hooks.slack.com/services/...; for another server use "
                "webhook_configs or apprise_configs"
            )
        return f"slack://{user}{'/'.join(found.groups())}{channel}/"


class SlackReceiver:
    """One webhook, or one channel of a bot."""

    Config: ClassVar[type[BaseModel]] = SlackConfig

    def __init__(self, config: SlackConfig) -> None:
        self.send_resolved = config.send_resolved
        wording = config.wording
        if config.strategy == "new" and not (wording or config.icon_emoji or config.icon_url):
            self._targets: Sequence[Target] = split(
                config.apprise_url(), most_messages=config.max_messages
            )
            return
        self._targets = (
            SlackTarget(
                url="" if config.api_url is None else config.api_url.get_secret_value(),
                token="" if config.token is None else config.token.get_secret_value(),
                channel=config.channel,
                look={
                    "username": config.username,
                    "icon_emoji": config.icon_emoji,
                    "icon_url": config.icon_url,
                },
                wording=wording,
                strategy=config.strategy,
                places=Places(),
                most_messages=config.max_messages,
            ),
        )

    def targets(self) -> Sequence[Target]:
        """One per channel."""
        return self._targets
