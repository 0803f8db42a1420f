"""Receivers of an alertmanager.yml as those that are installed here, or as apprise's URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import SecretStr, ValidationError

from engine.config.complaints import TEMPLATE, report_template
from engine.config.message_templates import CONTEXT
from engine.config.model import IntegrationConfig
from engine.config.routes import boolean
from engine.config.services import SERVICES, ServiceError, responder
from rules.document import Entry, Mapping, Scalar, Sequence
from rules.fields import Fields
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pydantic import BaseModel

    from engine.config.global_settings import GlobalSettings
    from engine.config.secrets import SecretReader
    from engine.config.services import Service
    from rules.document import Node
    from rules.templates.library import Library

_SUFFIX = "_configs"
_FILE = "_file"
# What Alertmanager has and neither stallwatch nor apprise speaks.
UNSPOKEN = ("jira", "incidentio", "jsm", "signl4")
# What Alertmanager knows in kinds that are here too.
_THEIRS = {
    "webhook": ("http_config", "payload"),
    "slack": ("http_config", "app_token", "app_url", "callback_id", "link_names", "mrkdwn_in",
              "actions", "edit_messages", "message_text", "timeout", "thread_message",
              "threaded_options"),
    "email": ("hello", "tls_config", "auth_secret", "auth_secret_file", "auth_identity",
              "threading", "force_implicit_tls"),
}  # fmt: skip
# Of `http_config`: what changes nothing here.
_HTTP_IDLE = ("follow_redirects", "enable_http2")
# Those that Alertmanager does not tell the end unless it is asked to.
_QUIET = ("email", "slack")


@dataclass(frozen=True, slots=True)
class AlertmanagerReceivers:
    """Translates the receivers of one file; what cannot be told is reported with a mend.

    `templates`: what their texts may include.
    """

    secrets: SecretReader
    settings: GlobalSettings
    apprise: type[BaseModel] | None
    templates: Library

    def native(self, kind: str, node: Mapping, known: Collection[str]) -> Mapping:
        """The settings of a kind that is installed here, in its own names (`known`)."""
        entries: list[Entry] = []
        for found in self.settings.added(kind, node, {*known, *_THEIRS.get(kind, ())}).entries:
            entry = _renamed(found)
            name = entry.key.value
            if name == "http_config" and name in known:
                entries.append(replace(entry, value=self._http(entry.value)))
            elif name == "timeout" and isinstance(entry.value, Scalar) and _is_zero(entry.value):
                continue  # no limit of its own; here the kind's default is one
            elif name in known or name not in _THEIRS.get(kind, ()):
                entries.append(entry)
            else:
                self._without_effect(entry, f"{kind}{_SUFFIX}")
        if kind in _QUIET and node.get("send_resolved") is None:
            entries.append(Entry(Scalar(node.span, "send_resolved"), Scalar(node.span, "false")))
        return Mapping(node.span, tuple(entries))

    def _http(self, node: Node) -> Node:
        if not isinstance(node, Mapping):
            return node
        kept = tuple(entry for entry in node.entries if entry.key.value not in _HTTP_IDLE)
        return Mapping(node.span, kept)

    def speaks(self, key: str) -> bool:
        """Whether this is a `..._configs` of Alertmanager that is no kind of ours."""
        kind = key.removesuffix(_SUFFIX)
        return key.endswith(_SUFFIX) and (kind in SERVICES or kind in UNSPOKEN)

    def integrations(self, entry: Entry) -> Iterator[IntegrationConfig]:
        """Those of one such list, sent by apprise."""
        report, key = self.secrets.report, entry.key.value
        service = SERVICES.get(key.removesuffix(_SUFFIX))
        if service is None or self.apprise is None:
            message = f"'{key}' is spoken by no receiver here, nor by apprise"
            hint = (
                "leave it to an Alertmanager that 'alertmanager_configs' or 'webhook_configs' tell"
            )
            report.add(entry.key.span, message, hint, "receiver")
            return
        if not isinstance(entry.value, Sequence):
            report.add(entry.value.span, f"'{key}' is a list", "each starts with '- '", "receiver")
            return
        for node in entry.value.items:
            known = _known(service)
            self.secrets.expose_unknown(node, known)
            fields = Fields.of(report, node, f"'{key}'", known)
            if fields is not None and (found := self._integration(key, service, fields)):
                yield found

    def _integration(self, key: str, service: Service, fields: Fields) -> IntegrationConfig | None:
        before = len(self.secrets.report.problems)
        values = self._values(key, service, fields)
        for name in (*service.idle, "http_config"):
            used = any(one.startswith(f"{name}.") for one in service.needed)
            if (entry := fields.entry(name)) is not None and not used:
                self._without_effect(entry, key)
        resolved = service.send_resolved
        if fields.entry("send_resolved") is not None:
            resolved = boolean(fields, "send_resolved")
        report = self.secrets.report
        if any(one.severity == "error" for one in report.problems[before:]):
            return None
        try:
            settings = {"url": SecretStr(service.url(values)), "send_resolved": resolved}
            texts = _texts(service, fields)
            settings |= {name: node.value for name, node in texts.items()}
            assert self.apprise is not None  # noqa: S101 - narrows for mypy
            parsed = self.apprise.model_validate(settings, context={CONTEXT: self.templates})
        except ServiceError as error:
            report.add(fields.key(error.name), str(error), error.hint, "receiver")
            return None
        except ValidationError as error:
            detail = error.errors(include_input=False)[0]
            if detail["type"] == TEMPLATE:
                setting = detail["loc"][0]
                where = f"'{service.title if setting == 'title' else service.text}'"
                report_template(detail, texts[str(setting)], where, report)
                return None
            said = detail["msg"].removeprefix("Value error, ")
            report.add(fields.head, f"'{key}': {said}", code="receiver")
            return None
        span = fields.mapping.span
        return IntegrationConfig(kind="apprise", settings=settings, parsed=parsed, span=span)

    def _values(self, key: str, service: Service, fields: Fields) -> dict[str, str]:
        """The texts of the settings that decide where it goes."""
        values: dict[str, str] = {}
        names = dict.fromkeys((*service.secret, *service.needed, *service.optional))
        for name in names:
            secret = name in service.secret
            entries = list(_at(fields.mapping, name, secret=secret))
            if not entries:
                of_global = dict(service.of_global).get(name)
                entries = [] if of_global is None else list(self.settings.entries(of_global))
            if len(entries) > 1:
                message = f"'{name}' and '{name}{_FILE}' are both given"
                self.secrets.report.add(entries[1].key.span, message, "keep one", "secret")
            if not entries:
                if name in service.needed:
                    hint = f"or '{name}{_FILE}'" if secret else ""
                    message = f"'{key}' needs '{name}'"
                    self.secrets.report.add(fields.head, message, hint, "receiver")
                continue
            value = self._value(entries[0], secret=secret)
            if not secret and "{{" in value:
                if name in service.needed:
                    message = f"'{name}' is a template, and decides where the message goes"
                    hint = "give it as plain text"
                    self.secrets.report.add(entries[0].value.span, message, hint, "receiver")
                else:
                    self._without_effect(entries[0], key)
            elif value:
                values[name] = value
        return values

    def _value(self, entry: Entry, *, secret: bool) -> str:
        if secret:
            read = self.secrets.file if entry.key.value.endswith(_FILE) else self.secrets.value
            found = read(entry.value)
            return found.get_secret_value() if isinstance(found, SecretStr) else ""
        if isinstance(entry.value, Sequence):  # OpsGenie's responders
            return "\n".join(map(_responder, entry.value.items))
        return entry.value.value if isinstance(entry.value, Scalar) else ""

    def _without_effect(self, entry: Entry, key: str) -> None:
        message = f"'{entry.key.value}' of '{key}' has no effect here"
        self.secrets.report.add(entry.key.span, message, code="receiver", severity="warning")


def _texts(service: Service, fields: Fields) -> dict[str, Scalar]:
    """The templates that a receiver gives, by the names of apprise's settings."""
    found = {"title": service.title, "text": service.text}
    return {
        ours: scalar
        for ours, name in found.items()
        if name and (scalar := fields.text(name)) is not None
    }


def _known(service: Service) -> list[str]:
    """What the settings of such a receiver may be called."""
    files = (f"{name}{_FILE}" for name in service.secret)
    names = (*service.secret, *files, *service.needed, *service.optional, *service.idle)
    texts = {service.title, service.text} - {""}
    others = {"send_resolved", "http_config", *texts}
    return sorted({name.partition(".")[0] for name in names} | others)


def _renamed(entry: Entry) -> Entry:
    """A bot's token is `app_token` in Alertmanager and `token` here."""
    name = entry.key.value
    if name not in {"app_token", f"app_token{_FILE}"}:
        return entry
    return replace(entry, key=replace(entry.key, value=name.removeprefix("app_")))


def _at(node: Node, name: str, *, secret: bool) -> Iterator[Entry]:
    """The entry of a dotted name, and that of its file."""
    first, dot, rest = name.partition(".")
    if not isinstance(node, Mapping):
        return
    for one in (first, f"{first}{_FILE}") if secret and not dot else (first,):
        entry = node.get(one)
        if entry is None or (isinstance(entry.value, Scalar) and entry.value.null):
            continue
        if dot:
            yield from _at(entry.value, rest, secret=secret)
        else:
            yield entry


def _responder(node: Node) -> str:
    fields = {entry.key.value: entry.value for entry in node.entries} if isinstance(
        node, Mapping) else {}  # fmt: skip
    texts = {name: value.value for name, value in fields.items() if isinstance(value, Scalar)}
    name = texts.get("name") or texts.get("username") or texts.get("id") or ""
    return responder(texts.get("type", ""), name)


def _is_zero(node: Scalar) -> bool:
    return node.value.rstrip("smh") == "0"
