"""The `receivers` section, in Alertmanager's spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from engine.config.complaints import report_all
from engine.config.message_templates import CONTEXT
from engine.config.model import IntegrationConfig, RateLimitConfig, ReceiverConfig
from engine.config.plain import plain
from engine.config.secrets import shown
from rules.document import Mapping, Scalar, Sequence
from rules.fields import did_you_mean
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

    from engine.config.alertmanager_receivers import AlertmanagerReceivers
    from engine.config.global_settings import GlobalSettings
    from engine.config.kinds import Kinds
    from engine.config.secrets import SecretReader
    from rules.document import Entry, Node
    from rules.fields import Report
    from rules.templates.library import Library

_SUFFIX = "_configs"
_RATE_LIMIT = "rate_limit"


@dataclass(frozen=True, slots=True)
class ReceiverReader:
    """Reads `receivers`; each kind's own settings class judges its integrations.

    `templates`: what their texts may include. `theirs`: translates those of an alertmanager.yml;
    None: the file is ours.
    """

    report: Report
    secrets: SecretReader
    kinds: Kinds
    settings: GlobalSettings
    templates: Library
    theirs: AlertmanagerReceivers | None = None

    def read(self, root: Mapping) -> tuple[ReceiverConfig, ...]:
        """All receivers; problems are reported."""
        entry = root.get("receivers")
        if entry is None or (isinstance(entry.value, Scalar) and entry.value.null):
            return ()
        if not isinstance(entry.value, Sequence):
            message = "'receivers' is a list"
            self.report.add(entry.value.span, message, "each starts with '- name:'", "receiver")
            return ()
        receivers: dict[str, ReceiverConfig] = {}
        for node in entry.value.items:
            receiver = self._receiver(node)
            if receiver is None:
                continue
            if receiver.name in receivers:
                message = f"there are two receivers named '{receiver.name}'"
                self.report.add(node.span, message, "give each a name of its own", "receiver")
            receivers[receiver.name] = receiver
        return tuple(receivers.values())

    def _receiver(self, node: Node) -> ReceiverConfig | None:
        name = node.get("name") if isinstance(node, Mapping) else None
        if not isinstance(node, Mapping) or name is None:
            self.report.add(node.span, "a receiver needs a 'name'", "'- name: oncall'", "receiver")
            return None
        if not isinstance(name.value, Scalar) or not name.value.value:
            self.report.add(name.value.span, "a receiver's name is text", code="receiver")
            return None
        integrations: list[IntegrationConfig] = []
        limit = node.get(_RATE_LIMIT) if self.theirs is None else None
        for entry in node.entries:
            if entry is name or entry is limit:
                continue
            if isinstance(entry.value, Scalar) and entry.value.null:
                continue
            if self._is_theirs(entry) and self.theirs is not None:
                integrations.extend(self.theirs.integrations(entry))
            else:
                integrations.extend(self._integrations(entry))
        return ReceiverConfig(
            name=name.value.value,
            integrations=tuple(integrations),
            rate_limit=None if limit is None else self._rate_limit(limit.value),
        )

    def _rate_limit(self, node: Node) -> RateLimitConfig | None:
        if isinstance(node, Scalar) and node.null:
            return None
        if not isinstance(node, Mapping):
            message = f"'{_RATE_LIMIT}' says how many messages in how long"
            self.report.add(node.span, message, "such as {messages: 20, per: 1h}", "receiver")
            return None
        try:
            return RateLimitConfig.model_validate(plain(node))
        except ValidationError as error:
            report_all(error, node, RateLimitConfig, self.report, f"'{_RATE_LIMIT}'")
            return None

    def _is_theirs(self, entry: Entry) -> bool:
        kind = entry.key.value.removesuffix(_SUFFIX)
        return (
            self.theirs is not None
            and kind not in self.kinds.receivers
            and self.theirs.speaks(entry.key.value)
        )

    def _integrations(self, entry: Entry) -> Iterator[IntegrationConfig]:
        key = entry.key.value
        kind = key.removesuffix(_SUFFIX)
        if not key.endswith(_SUFFIX) or kind not in self.kinds.receivers:
            known = [f"{name}{_SUFFIX}" for name in sorted(self.kinds.receivers)]
            known += [] if self.theirs is not None else [_RATE_LIMIT]
            message = f"a receiver has no field '{shown(key)}'"
            self.report.add(entry.key.span, message, did_you_mean(key, known), "receiver")
            return
        if not isinstance(entry.value, Sequence):
            message = f"'{key}' is a list"
            self.report.add(entry.value.span, message, "each starts with '- '", "receiver")
            return
        try:
            model = self.kinds.receivers[kind]()
        except (ImportError, AttributeError) as error:
            message = f"the receiver kind '{kind}' cannot be loaded: {error}"
            self.report.add(entry.key.span, message, code="receiver")
            return
        for node in entry.value.items:
            integration = self._integration(kind, node, model)
            if integration is not None:
                yield integration

    def _integration(
        self, kind: str, node: Node, model: type[BaseModel]
    ) -> IntegrationConfig | None:
        if not isinstance(node, Mapping):
            message = f"each of '{kind}{_SUFFIX}' is a mapping of 'name: value' lines"
            self.report.add(node.span, message, code="receiver")
            return None
        known = [field.alias or name for name, field in model.model_fields.items()]
        known += [f"{name}_file" for name in known]
        if self.theirs is not None:
            node = self.theirs.native(kind, node, known)
        else:
            node = self.settings.added(kind, node, known)
        settings = self.secrets.settings(node, model)
        try:
            # Paths in a receiver's settings start at the file's folder like all others.
            context = {"folder": self.secrets.folder, CONTEXT: self.templates}
            parsed = model.model_validate(settings, context=context)
        except ValidationError as error:
            report_all(error, node, model, self.report, f"'{kind}{_SUFFIX}'")
            return None
        return IntegrationConfig(kind=kind, settings=settings, parsed=parsed, span=node.span)
