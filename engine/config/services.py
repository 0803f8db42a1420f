"""Alertmanager's receivers that apprise speaks: from their settings to apprise's URL.

Settings and defaults are those of config/notifiers.go in Alertmanager, the URLs those of apprise's
plugins. Of what a message looks like only its title and its text can be said.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode, urlsplit

from rules.errors import StallwatchError
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Values = Mapping[str, str]

_DISCORD = re.compile(r"/api/webhooks/([0-9]+)/([A-Za-z0-9_-]+)/?")
_RESPONDERS = {"team": "#", "teams": "#", "user": "@", "escalation": "^", "schedule": "*"}


class ServiceError(StallwatchError):
    """A setting with which apprise cannot send. `name`: which one, `hint`: the mend."""

    def __init__(self, name: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Service:
    """How one kind of Alertmanager's receivers is reached; dots lead into a nested mapping.

    `secret` may each be given as a file too. `optional` decide something only as plain text, not as
    templates; `idle` have no effect. `of_global`: where a setting that is absent is taken from.
    `title`, `text`: the settings that are templates of these, "" where there is none.
    """

    url: Callable[[Values], str]
    secret: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    of_global: tuple[tuple[str, str], ...] = ()
    send_resolved: bool = True
    title: str = ""
    text: str = ""


def _q(text: str, safe: str = "") -> str:
    return quote(text, safe=safe)


def _asked(**query: str) -> str:
    given = {name: text for name, text in query.items() if text}
    return f"?{urlencode(given)}" if given else ""


def _place(values: Values, name: str) -> str:
    """`host` or `host:port/path` of a URL."""
    parts = urlsplit(values[name])
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ServiceError(name, "expected a URL such as https://host/path")
    return f"{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def _pagerduty(values: Values) -> str:
    if not values.get("routing_key"):
        raise ServiceError(
            "service_key",
            "apprise speaks PagerDuty's Events API 2 only, which needs 'routing_key'",
            "add an integration 'Events API V2' to the service and give its key",
        )
    key = _q(values["routing_key"])
    names = ("severity", "class", "group")
    return f"pagerduty://{key}@{key}/{_asked(**{name: values.get(name, '') for name in names})}"


def _opsgenie(values: Values) -> str:
    host = urlsplit(values.get("api_url") or "https://api.opsgenie.com").hostname or ""
    region = "eu" if host.startswith("api.eu.") else ""
    priority = values.get("priority", "").lower()
    asked = _asked(region=region, priority=priority, tags=values.get("tags", ""))
    targets = "".join(f"/{_q(one)}" for one in values.get("responders", "").split("\n") if one)
    return f"opsgenie://{_q(values['api_key'])}{targets}/{asked}"


def _telegram(values: Values) -> str:
    silent = "yes" if values.get("disable_notifications", "").lower() == "true" else ""
    asked = _asked(topic=values.get("message_thread_id", ""), silent=silent)
    return f"tgram://{_q(values['bot_token'], ':')}/{_q(values['chat_id'])}/{asked}"


def _discord(values: Values) -> str:
    found = _DISCORD.fullmatch(urlsplit(values["webhook_url"]).path)
    if found is None:
        raise ServiceError("webhook_url", "expected https://discord.com/api/webhooks/ID/TOKEN")
    user = f"{_q(values['username'])}@" if values.get("username") else ""
    return f"discord://{user}{found[1]}/{found[2]}/"


def _webhook_url(values: Values) -> str:
    # apprise knows the services' own URLs.
    return values["webhook_url"]


def _pushover(values: Values) -> str:
    device = f"{_q(values['device'])}/" if values.get("device") else ""
    asked = _asked(sound=values.get("sound", ""))
    return f"pover://{_q(values['user_key'])}@{_q(values['token'])}/{device}{asked}"


def _victorops(values: Values) -> str:
    return f"victorops://{_q(values['routing_key'])}@{_q(values['api_key'])}/"


def _webex(values: Values) -> str:
    token = values["http_config.authorization.credentials"]
    return f"wxteams://{_q(token)}/{_q(values['room_id'])}/"


def _sns(values: Values) -> str:
    arn = values.get("topic_arn", "")
    target = arn.rpartition(":")[2] or values.get("phone_number", "")
    region = values.get("sigv4.region") or (arn.split(":")[3] if arn.count(":") == 5 else "")
    if not target:
        raise ServiceError("topic_arn", "give 'topic_arn' or 'phone_number'")
    if not region:
        raise ServiceError("sigv4", "give 'sigv4.region'", "such as us-east-1")
    key = "/".join((_q(values["sigv4.access_key"]), _q(values["sigv4.secret_key"], "/")))
    return f"sns://{key}/{_q(region)}/{_q(target, '+')}/"


def _wechat(values: Values) -> str:
    marks = (("to_user", "@"), ("to_party", "#"), ("to_tag", "+"))
    targets = "".join(
        f"/{_q(mark + one)}"
        for name, mark in marks
        for one in values.get(name, "").split("|")
        if one
    )
    whose = f"{_q(values['corp_id'])}:{_q(values['api_secret'])}"
    return f"wechat://{whose}@{_q(values['agent_id'])}{targets}/"


def _rocketchat(values: Values) -> str:
    place = _place({"api_url": values.get("api_url") or "https://open.rocket.chat/"}, "api_url")
    channel = values["channel"]
    target = channel if channel[:1] in "#@" else f"#{channel}"
    schema = "rocket" if values.get("api_url", "").startswith("http:") else "rockets"
    who = f"{_q(values['token_id'])}:{_q(values['token'])}"
    return f"{schema}://{who}@{place}/{_q(target, '@')}/?mode=token"


def _mattermost(values: Values) -> str:
    place, hooks, token = _place(values, "webhook_url").rpartition("/hooks/")
    if not hooks or not token:
        raise ServiceError("webhook_url", "expected https://HOST/hooks/TOKEN")
    user = f"{_q(values['username'])}@" if values.get("username") else ""
    schema = "mmost" if values["webhook_url"].startswith("http:") else "mmosts"
    return f"{schema}://{user}{place}/{_q(token)}/{_asked(channel=values.get('channel', ''))}"


def responder(kind: str, name: str) -> str:
    """An OpsGenie responder as apprise marks it; "" for a kind that it does not know."""
    return f"{_RESPONDERS[kind.lower()]}{name}" if kind.lower() in _RESPONDERS else ""


_CHAT = ("color", "title_link", "fields", "short_fields", "icon_url", "image_url",
         "thumb_url", "link_names", "actions")  # fmt: skip

SERVICES: Mapping[str, Service] = {
    "pagerduty": Service(
        _pagerduty,
        secret=("routing_key", "service_key"),
        optional=("severity", "class", "group"),
        idle=("url", "client", "client_url", "details", "images", "links", "source", "component",
              "timeout"),
        title="description",
    ),
    "opsgenie": Service(
        _opsgenie,
        secret=("api_key",),
        needed=("api_key",),
        optional=("api_url", "priority", "tags", "responders"),
        idle=("source", "details", "entity", "actions", "note", "update_alerts"),
        title="message",
        text="description",
        of_global=(("api_key", "opsgenie_api_key"), ("api_url", "opsgenie_api_url")),
    ),
    "telegram": Service(
        _telegram,
        secret=("bot_token",),
        needed=("bot_token", "chat_id"),
        optional=("message_thread_id", "disable_notifications"),
        idle=("api_url", "parse_mode"),
        text="message",
        of_global=(("bot_token", "telegram_bot_token"),),
    ),
    "discord": Service(
        _discord,
        secret=("webhook_url",),
        needed=("webhook_url",),
        optional=("username",),
        idle=("content", "avatar_url"),
        title="title",
        text="message",
    ),
    "msteams": Service(
        _webhook_url,
        secret=("webhook_url",),
        needed=("webhook_url",),
        idle=("summary",),
        title="title",
        text="text",
    ),
    "msteamsv2": Service(
        _webhook_url,
        secret=("webhook_url",),
        needed=("webhook_url",),
        idle=("summary",),
        title="title",
        text="text",
    ),
    "pushover": Service(
        _pushover,
        secret=("user_key", "token"),
        needed=("user_key", "token"),
        optional=("device", "sound"),
        idle=("url", "url_title", "priority", "retry", "expire", "ttl", "html", "monospace"),
        title="title",
        text="message",
    ),
    "victorops": Service(
        _victorops,
        secret=("api_key",),
        needed=("api_key", "routing_key"),
        idle=("api_url", "message_type", "monitoring_tool", "custom_fields"),
        title="entity_display_name",
        text="state_message",
        of_global=(("api_key", "victorops_api_key"),),
    ),
    "webex": Service(
        _webex,
        secret=("http_config.authorization.credentials",),
        needed=("http_config.authorization.credentials", "room_id"),
        idle=("api_url",),
        text="message",
    ),
    "sns": Service(
        _sns,
        secret=("sigv4.secret_key",),
        needed=("sigv4.access_key", "sigv4.secret_key"),
        optional=("topic_arn", "phone_number", "sigv4.region"),
        idle=("api_url", "attributes"),
        title="subject",
        text="message",
    ),
    "wechat": Service(
        _wechat,
        secret=("api_secret",),
        needed=("corp_id", "api_secret", "agent_id"),
        optional=("to_user", "to_party", "to_tag"),
        idle=("api_url", "message_type"),
        text="message",
        of_global=(("api_secret", "wechat_api_secret"), ("corp_id", "wechat_api_corp_id")),
        send_resolved=False,
    ),
    "rocketchat": Service(
        _rocketchat,
        secret=("token", "token_id"),
        needed=("token", "token_id", "channel"),
        optional=("api_url",),
        idle=(*_CHAT, "emoji"),
        title="title",
        text="text",
        of_global=(
            ("token", "rocketchat_token"),
            ("token_id", "rocketchat_token_id"),
            ("api_url", "rocketchat_api_url"),
        ),
        send_resolved=False,
    ),
    "mattermost": Service(
        _mattermost,
        secret=("webhook_url",),
        needed=("webhook_url",),
        optional=("channel", "username"),
        idle=(*_CHAT, "icon_emoji", "attachments", "priority", "props", "type", "footer",
              "fallback", "pretext"),
        title="title",
        text="text",
        of_global=(("webhook_url", "mattermost_webhook_url"),),
    ),
}  # fmt: skip
