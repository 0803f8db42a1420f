"""A rule's labels and annotations, expanded for one element of its result."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from engine.labels import METRIC_NAME, Labels
from rules.templates import TemplateData, TemplateError, expand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.alerts.machine import Element
    from rules.model import AlertingRule

LOGGER = logging.getLogger(__name__)


class AlertTemplates:
    """Expands the templates of one rule.

    A template that fails never loses its alert: its text becomes
    `<error expanding template: ...>`, as in Prometheus, and `errors_total` counts it.
    """

    def __init__(
        self,
        rule: AlertingRule,
        external_labels: Mapping[str, str] | None = None,
        external_url: str = "",
    ) -> None:
        self.errors_total = 0
        self._rule = rule
        self._external_labels = dict(external_labels or {})
        self._external_url = external_url

    def labels(self, element: Element) -> Labels:
        """The identity: the element's labels less `__name__`, the rule's on top, `alertname`."""
        own = {name: self._expand(text, element) for name, text in self._rule.labels.items()}
        own[METRIC_NAME] = ""
        own["alertname"] = self._rule.name
        return element.labels.merged(own)

    def annotations(self, element: Element) -> dict[str, str]:
        """The annotations by name."""
        return {name: self._expand(text, element) for name, text in self._rule.annotations.items()}

    def _expand(self, text: str, element: Element) -> str:
        if "{{" not in text:
            return text
        data = TemplateData(
            labels=element.labels.to_dict(),
            value=element.value,
            external_labels=self._external_labels,
            external_url=self._external_url,
        )
        try:
            return expand(text, data)
        except TemplateError as error:
            if not self.errors_total:
                LOGGER.warning("alert %s: a template failed: %s", self._rule.name, error)
            self.errors_total += 1
            return f"<error expanding template: {error}>"
