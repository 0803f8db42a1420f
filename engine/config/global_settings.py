"""The section `global`: what Alertmanager's receivers take where they say nothing themselves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rules.document import Entry, Mapping, Scalar
from rules.fields import Fields
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from engine.config.secrets import SecretReader

SECTION = "global"
_FILE = "_file"
_URL = re.compile(r"https?://[^/\s]|env:", re.ASCII)
_HOST_PORT = re.compile(r".*:[A-Za-z0-9]+")
# All that Alertmanager's `http_config` may have (HTTPClientConfig in prometheus/common).
HTTP = ("authorization", "basic_auth", "bearer_token", "bearer_token_file", "oauth2", "tls_config",
        "proxy_url", "no_proxy", "proxy_from_environment", "proxy_connect_header",
        "follow_redirects", "enable_http2", "http_headers")  # fmt: skip
# By receiver kind: its setting, and where `global` has that.
_OF_GLOBAL = {
    "webhook": (("http_config", "http_config"),),
    "slack": (
        ("http_config", "http_config"),
        ("api_url", "slack_api_url"),
        ("app_token", "slack_app_token"),
    ),
    "email": (
        ("smarthost", "smtp_smarthost"),
        ("from", "smtp_from"),
        ("hello", "smtp_hello"),
        ("auth_username", "smtp_auth_username"),
        ("auth_password", "smtp_auth_password"),
        ("auth_secret", "smtp_auth_secret"),
        ("auth_identity", "smtp_auth_identity"),
        ("require_tls", "smtp_require_tls"),
        ("tls_config", "smtp_tls_config"),
        ("force_implicit_tls", "smtp_force_implicit_tls"),
    ),
}
# A file may stand in the place of these.
_SECRETS = ("slack_api_url", "slack_app_token", "smtp_auth_password", "smtp_auth_secret",
            "opsgenie_api_key", "wechat_api_secret", "victorops_api_key", "telegram_bot_token",
            "rocketchat_token", "rocketchat_token_id", "mattermost_webhook_url",
            "jsm_api_key")  # fmt: skip
_NAMES = ("resolve_timeout", "http_config", "smtp_from", "smtp_hello", "smtp_smarthost",
          "smtp_auth_username", "smtp_auth_identity", "smtp_require_tls", "smtp_tls_config",
          "smtp_force_implicit_tls", "slack_app_url", "jira_api_url", "pagerduty_url",
          "opsgenie_api_url", "jsm_api_url", "wechat_api_url", "wechat_api_corp_id",
          "victorops_api_url", "telegram_api_url", "webex_api_url", "rocketchat_api_url", *_SECRETS,
          *(f"{name}{_FILE}" for name in _SECRETS))  # fmt: skip


@dataclass(frozen=True, slots=True)
class GlobalSettings:
    """The fields of the section, None where there is none."""

    fields: Fields | None

    @classmethod
    def read(cls, secrets: SecretReader, root: Mapping) -> GlobalSettings:
        """The section of a file; problems are reported."""
        report, entry = secrets.report, root.get(SECTION)
        if entry is None or (isinstance(entry.value, Scalar) and entry.value.null):
            return cls(None)
        secrets.expose_unknown(entry.value, _NAMES)
        fields = Fields.of(report, entry.value, "'global'", _NAMES)
        if fields is not None:
            fields.duration_ms("resolve_timeout")
            _check_addresses(fields)
            for name in _SECRETS:
                file = fields.entry(f"{name}{_FILE}")
                if fields.entry(name) is not None and file is not None:
                    message = f"'{name}' and '{name}{_FILE}' are both given"
                    report.add(file.key.span, message, "keep one", "secret")
        return cls(fields)

    def entries(self, name: str) -> Iterator[Entry]:
        """The entry of a setting, or that of the file it is in."""
        for one in (name, f"{name}{_FILE}"):
            entry = None if self.fields is None else self.fields.entry(one)
            if entry is not None:
                yield entry

    def added(self, kind: str, node: Mapping, known: Collection[str]) -> Mapping:
        """A receiver's settings with those that are only given globally, each at its own place.

        `known`: the settings that the kind has.
        """
        found = list(node.entries)
        for name, of_global in _OF_GLOBAL.get(kind, ()):
            if name not in known or _given(node, name):
                continue
            for entry in self.entries(of_global):
                suffix = _FILE if entry.key.value.endswith(_FILE) else ""
                found.append(replace(entry, key=replace(entry.key, value=f"{name}{suffix}")))
        return Mapping(node.span, tuple(found))


def _check_addresses(fields: Fields) -> None:
    """What is no address is one for nobody, also where no receiver takes it."""
    for entry in fields.mapping.entries:
        name, value = entry.key.value, entry.value
        if not isinstance(value, Scalar) or not value.value or value.null:
            continue
        if name.endswith("_url") and not _URL.match(value.value):
            message = f"'{name}': expected a URL such as https://host/path"
            fields.report.add(value.span, message, code="config")
        if name == "smtp_smarthost" and not _HOST_PORT.fullmatch(value.value):
            message = f"'{name}': expected host:port, such as smtp.example.com:587"
            fields.report.add(value.span, message, code="config")
    http = fields.entry("http_config")
    if http is not None:
        Fields.of(fields.report, http.value, "'http_config'", HTTP)


def _given(node: Mapping, name: str) -> bool:
    """Whether the receiver says it itself; a webhook and a bot's token exclude each other."""
    names = {"api_url", "app_token", "token"} if name in {"api_url", "app_token"} else {name}
    return any(node.get(one) is not None or node.get(f"{one}{_FILE}") is not None for one in names)
