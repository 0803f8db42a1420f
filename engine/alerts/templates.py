"""A rule's labels and annotations, expanded for one element of its result."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from engine.alerts.machine import Element
from engine.labels import METRIC_NAME, Labels
from rules.slotted import replace
from rules.templates import TemplateError, words_of
from rules.templates.expand import TemplateData, expand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.alerts.alert import Alert
    from rules.model import AlertingRule
    from rules.templates import QueryFunction

LOGGER = logging.getLogger(__name__)
MAX_KNOWN = 100_000
# All of the data (a bare dot or dollar) holds the value too, and so may a variable.
_MAY_BE_VALUE = re.compile(
    r"value|(?<![\w)\]])\.(?![a-z_])|\$(?!labels\b|externallabels\b|externalurl\b)"
)


class _Deferred(dict[str, str]):
    """Annotations that are expanded only if someone comes to look at them."""

    __slots__ = ("element",)

    def __init__(self, element: Element) -> None:
        super().__init__()
        self.element = element


class AlertTemplates:
    """Expands the templates of one rule.

    A template that fails never loses its alert: its text becomes
    `<error expanding template: ...>`, as in Prometheus, and `errors_total` counts it. `deferred`:
    annotations stay unexpanded until `settled`, for a replay that passes over most of them; not
    those of a rule that queries or asks for the time, since the answer is of that moment. `query`
    answers the templates' queries at the evaluation under way, `time_ms` is when that is.
    """

    def __init__(
        self,
        rule: AlertingRule,
        external_labels: Mapping[str, str] | None = None,
        external_url: str = "",
        *,
        deferred: bool = False,
    ) -> None:
        self.errors_total = 0
        self._rule = rule
        self._external_labels = dict(external_labels or {})
        self._external_url = external_url
        self.query: QueryFunction | None = None
        self.time_ms: int | None = None
        texts = (*rule.labels.values(), *rule.annotations.values())
        words = frozenset[str]().union(*map(words_of, texts))
        self.has_query = "query" in words
        self._is_deferred = deferred and not words & {"query", "now"}
        # Labels that are the same whatever the value are worked out once per element.
        self._templated = {name: text for name, text in rule.labels.items() if "{{" in text}
        self._are_labels_static = not self._templated
        self._labels_of: dict[Labels, Labels] = {}

    def labels(self, element: Element) -> Labels:
        """The identity: the element's labels less `__name__`, the rule's on top, `alertname`."""
        if self._are_labels_static:
            known = self._labels_of.get(element.labels)
            if known is None:
                if len(self._labels_of) >= MAX_KNOWN:
                    self._labels_of.clear()
                known = self._labels_of[element.labels] = self._merged(element)
            return known
        return self._merged(element)

    @property
    def is_deferred(self) -> bool:
        """Whether annotations wait for `settled`."""
        return self._is_deferred

    def constant_labels(self, rows: Sequence[Labels]) -> list[Labels] | None:
        """The identity of each row's alert; None where it changes with the value or cannot be had.

        `rows`: the elements' labels.
        """
        if self.has_query or any(map(_reads_value, self._rule.labels.values())):
            return None
        failed = self.errors_total
        found = [self.labels(Element(labels, 0.0)) for labels in rows]
        if self.errors_total != failed:
            self.errors_total = failed
            return None
        return found

    def written(self, labels: Labels) -> Labels:
        """The labels under which `ALERTS` tells of an alert: its own, nearly always.

        As in Prometheus (rules/alerting.go, `sample`) a label of the rule whose template came out
        empty, and so is none of the alert's, stands there as it was written.
        """
        empty = {name: text for name, text in self._templated.items() if name not in labels}
        return labels.merged(empty) if empty else labels

    def annotations(self, element: Element) -> dict[str, str]:
        """The annotations by name."""
        return _Deferred(element) if self._is_deferred else self._expanded(element)

    def settled(self, alert: Alert) -> Alert:
        """The alert with its annotations expanded."""
        if not isinstance(alert.annotations, _Deferred):
            return alert
        return replace(alert, annotations=self._expanded(alert.annotations.element))

    def _expanded(self, element: Element) -> dict[str, str]:
        return {name: self._expand(text, element) for name, text in self._rule.annotations.items()}

    def _merged(self, element: Element) -> Labels:
        own = {name: self._expand(text, element) for name, text in self._rule.labels.items()}
        own[METRIC_NAME] = ""
        own["alertname"] = self._rule.name
        return element.labels.merged(own)

    def _expand(self, text: str, element: Element) -> str:
        if "{{" not in text:
            return text
        data = TemplateData(
            labels=element.labels.to_dict(),
            value=element.value,
            external_labels=self._external_labels,
            external_url=self._external_url,
            time_ms=self.time_ms,
        )
        try:
            return expand(text, data, self.query)
        except TemplateError as error:
            if not self.errors_total:
                LOGGER.warning("alert %s: a template failed: %s", self._rule.name, error)
            return self._failed(error.located(text))
        except Exception as error:
            # A fault of ours; it must not cost the alert either.
            LOGGER.exception("alert %s: internal error in a template", self._rule.name)
            return self._failed(f"internal error: {type(error).__name__}: {error}")

    def _failed(self, reason: str) -> str:
        self.errors_total += 1
        return f"<error expanding template: {reason}>"


def _reads_value(text: str) -> bool:
    """Whether a template's text may depend on the value; sure only if False."""
    start, end = text.find("{{"), text.rfind("}}")
    return start >= 0 and _MAY_BE_VALUE.search(text[start:end].lower()) is not None
