"""`slack_configs`, in Alertmanager's spelling, sent by apprise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, SecretStr, field_validator, model_validator

from notifiers.receivers.apprise import split
from notifiers.receivers.receiver import ReceiverSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from notifiers.receivers.receiver import Target

_HOOK = re.compile(r"/services/([A-Za-z0-9]+)/([A-Za-z0-9]+)/([A-Za-z0-9]+)/?")
_CHANNEL = re.compile(r"[#@+]?[^\s,/#@+:]{1,80}")


class SlackConfig(ReceiverSettings):
    """A webhook (`api_url`), or a bot's `token` with a `channel`."""

    api_url: SecretStr | None = None
    token: SecretStr | None = None
    channel: str = ""
    username: str = ""

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
        self._targets = split(config.apprise_url())

    def targets(self) -> Sequence[Target]:
        """One per channel."""
        return self._targets
