"""From the YAML of groups and rules to the model, with everything that Prometheus 3 checks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rules.document import Scalar
from rules.fields import Fields, Report, nearest
from rules.model import RESOLVE_ANNOTATION, AlertingRule, Expression, Group, RecordingRule
from rules.promql.ast import ValueType
from rules.promql.futility import failures
from rules.promql.parser import parse
from rules.promql.types import type_of
from rules.slotted import dataclass, field
from rules.source import ProblemsError, Span
from rules.templates.check import check_template

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rules.document import Node
    from rules.model import Rule
    from rules.promql.ast import Expr
    from rules.source import Severity

_GROUP_FIELDS = ("name", "interval", "query_offset", "limit", "labels", "rules")
_RULE_FIELDS = (
    "alert", "record", "expr", "for", "keep_firing_for", "labels", "annotations",
)  # fmt: skip
# What people write beside the fields, and where it goes.
_MISPLACED = {
    "severity": "it is a label: write it below 'labels:'",
    "summary": "it is an annotation: write it below 'annotations:'",
    "description": "it is an annotation: write it below 'annotations:'",
    "runbook_url": "it is an annotation: write it below 'annotations:'",
    "expression": "did you mean 'expr'?",
    "query": "did you mean 'expr'?",
    "duration": "did you mean 'for'?",
    "name": "did you mean 'alert'?",
}
# What an expression may give and a rule cannot use, and the way out.
_UNUSABLE = {
    ValueType.MATRIX: "reduce the range first, as in rate(x[5m]) or max_over_time(x[5m])",
    ValueType.STRING: "an expression such as 'up == 0' gives series",
}
# Settings of ours, which Prometheus takes for annotations like any other.
_OUR_PREFIX = "stallwatch_"
_OUR_ANNOTATIONS = tuple(
    name.removeprefix(_OUR_PREFIX) for name in (RESOLVE_ANNOTATION, "stallwatch_lint_ignore")
)
_METRIC_NAME_LABEL = "__name__"
_LEGACY_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_LEGACY_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)


@dataclass(slots=True)
class GroupReader:
    """Reads the groups of one file. `operator`: as the Prometheus operator's objects have them."""

    report: Report
    legacy_names: bool = False
    operator: bool = False
    _group_lines: dict[str, int] = field(default_factory=dict)
    _rule_lines: dict[tuple[str, tuple[tuple[str, str], ...]], int] = field(default_factory=dict)
    # By place: an alias brings the same text again.
    _trees: dict[Span, Expr | None] = field(default_factory=dict)
    _checked: set[Span] = field(default_factory=set)

    def read(self, nodes: Iterable[Node]) -> tuple[Group, ...]:
        """The groups that are right enough to be built."""
        return tuple(group for node in nodes if (group := self._group(node)) is not None)

    def _group(self, node: Node) -> Group | None:
        known = (*_GROUP_FIELDS, "partial_response_strategy") if self.operator else _GROUP_FIELDS
        fields = Fields.of(self.report, node, "a group", known)
        if fields is None:
            return None
        name = self._group_name(fields)
        interval = fields.duration_ms("interval")
        offset = fields.duration_ms("query_offset")
        labels = self._labels(fields)
        rules = [self._rule(item, labels) for item in fields.items("rules")]
        return Group(
            name=name,
            file=self.report.source.name,
            # Prometheus reads 0 as "not set".
            interval_ms=interval or None,
            query_offset_ms=offset,
            limit=max(0, fields.integer("limit")),
            labels=labels,
            rules=tuple(rule for rule in rules if rule is not None),
            span=fields.mapping.span,
        )

    def _group_name(self, fields: Fields) -> str:
        scalar = fields.text("name")
        if scalar is None or not scalar.value:
            missing = fields.entry("name") is None and "name" not in fields.misspelt
            if scalar is not None or missing:
                self.report.add(fields.key("name"), "a group needs a name", code="group-name")
            return ""
        line, _ = self.report.source.position(scalar.span.start)
        first = self._group_lines.get(scalar.value)
        self._group_lines.setdefault(scalar.value, line)
        if first is not None:
            message = f"the group name '{scalar.value}' appears twice in this file"
            hint = f"it stands on line {first} already; names are unique within a file"
            self.report.add(scalar.span, message, hint, code="duplicate-group")
        return scalar.value

    def _labels(self, fields: Fields) -> dict[str, str]:
        labels = {}
        for key, value in fields.texts("labels"):
            name = key.value
            if name == _METRIC_NAME_LABEL:
                message = "the label '__name__' cannot be set: it is the metric's name"
                hint = "the name of a recorded series stands in 'record'"
                self.report.add(key.span, message, hint, code="label-name")
            elif not self._valid(name, _LEGACY_LABEL_NAME):
                self._invalid_name("label", key)
            labels[name] = value.value
        return labels

    def _rule(self, node: Node, group_labels: dict[str, str]) -> Rule | None:
        fields = Fields.of(self.report, node, "a rule", _RULE_FIELDS, _MISPLACED)
        if fields is None:
            return None
        alert = fields.text("alert")
        record = fields.text("record")
        expression = self._expression(fields)
        labels = {**group_labels, **self._labels(fields)}
        if record is not None and record.value:
            if alert is not None and alert.value:
                later = max(alert.span, record.span)
                message = "a rule is either 'alert' or 'record', not both"
                self.report.add(later, message, "make two rules of it", code="alert-and-record")
                return None
            self._refuse_alert_fields(fields)
            self._check_record_name(record)
            self._warn_duplicate(record, labels)
            if expression is None:
                return None
            return RecordingRule(record.value, expression, labels, fields.mapping.span)
        if alert is None or not alert.value:
            # One that is no text at all is reported already.
            said = fields.entry("alert") or fields.entry("record")
            misspelt = fields.misspelt & {"alert", "record"}
            if not misspelt and (said is None or isinstance(said.value, Scalar)):
                message = "a rule needs 'alert' or 'record'"
                hint = "'alert: Name' fires, 'record: name' stores the result as a series"
                self.report.add(fields.head, message, hint, code="no-name")
            return None
        return self._alerting(fields, alert, expression, labels)

    def _alerting(
        self, fields: Fields, alert: Scalar, expression: Expression | None, labels: dict[str, str]
    ) -> AlertingRule | None:
        for_ms = fields.duration_ms("for")
        keep_ms = fields.duration_ms("keep_firing_for")
        annotations, resolve = {}, None
        for key, value in fields.texts("annotations"):
            if not self._valid(key.value, _LEGACY_LABEL_NAME):
                self._invalid_name("annotation", key)
            self._check_template(value)
            self._check_setting(key)
            annotations[key.value] = value.value
            if key.value == RESOLVE_ANNOTATION:
                resolve = self._resolve(key, value)
        for _, value in fields.texts("labels"):
            self._check_template(value)
        self._warn_duplicate(alert, labels)
        if expression is None:
            return None
        return AlertingRule(
            name=alert.value,
            expression=expression,
            for_ms=for_ms or 0,
            keep_firing_for_ms=keep_ms or 0,
            labels=labels,
            annotations=annotations,
            span=fields.mapping.span,
            resolve=resolve,
        )

    def _resolve(self, key: Scalar, value: Scalar) -> Expression | None:
        if value.value.strip():
            return self._parsed(value, futile="error")
        message = f"'{RESOLVE_ANNOTATION}' needs an expression"
        hint = "while it gives something the alert goes on firing, as in 'temperature > 80'"
        self.report.add(key.span, message, hint, "no-expr")
        return None

    def _check_setting(self, key: Scalar) -> None:
        name = key.value.removeprefix(_OUR_PREFIX)
        if name == key.value or name in _OUR_ANNOTATIONS:
            return
        if meant := nearest(name, _OUR_ANNOTATIONS):
            message = f"'{key.value}' is no setting: it does nothing"
            hint = f"did you mean '{_OUR_PREFIX}{meant}'?"
            self.report.add(key.span, message, hint, "setting-name", severity="warning")

    def _expression(self, fields: Fields) -> Expression | None:
        scalar = fields.text("expr")
        if scalar is None or not scalar.value.strip():
            found = fields.entry("expr")
            missing = found is None and "expr" not in fields.misspelt
            if missing or scalar is not None:
                span = fields.key("expr")
                hint = "such as 'expr: up == 0'"
                self.report.add(span, "a rule needs an 'expr'", hint, "no-expr")
            return None
        return self._parsed(scalar)

    def _parsed(self, scalar: Scalar, futile: Severity = "warning") -> Expression | None:
        source = self.report.source
        offsets = scalar.offsets(source.text)
        if scalar.span not in self._trees:
            self._trees[scalar.span] = self._parse(scalar.value, offsets, futile)
        tree = self._trees[scalar.span]
        return None if tree is None else Expression(scalar.value, tree, source, offsets)

    def _parse(self, text: str, offsets: Sequence[int], futile: Severity) -> Expr | None:
        try:
            tree = parse(text)
        except ProblemsError as error:
            for found in error.problems:
                span = place(offsets, found.span)
                code = found.code or "expr"
                self.report.add(span, found.message, found.hint, code, found.severity)
            return None
        # Prometheus loads an `expr` like that, and then fails at every evaluation.
        if (hint := _UNUSABLE.get(kind := type_of(tree))) is not None:
            span = place(offsets, Span(0, len(text.rstrip())))
            message = f"a {kind.value} is no result for a rule: every evaluation will fail"
            self.report.add(span, message, hint, "result-type", severity=futile)
        for failure in failures(tree):
            message = f"{failure.message}: every evaluation will fail"
            span = place(offsets, failure.span)
            severity = "error" if failure.ours else futile
            self.report.add(span, message, failure.hint, "futile", severity=severity)
        return tree

    def _check_template(self, scalar: Scalar) -> None:
        if "{{" not in scalar.value or scalar.span in self._checked:
            return
        self._checked.add(scalar.span)
        error = check_template(scalar.value)
        if error is not None:
            offsets = scalar.offsets(self.report.source.text)
            self.report.add(place(offsets, error.span), error.message, error.hint, "template")

    def _refuse_alert_fields(self, fields: Fields) -> None:
        for name in ("for", "keep_firing_for"):
            if fields.duration_ms(name):
                self._refuse_alert_field(fields, name)
        if fields.texts("annotations"):
            self._refuse_alert_field(fields, "annotations")

    def _refuse_alert_field(self, fields: Fields, name: str) -> None:
        message = f"a recording rule has no '{name}'"
        hint = "only an alert waits, fires and tells; delete it, or make this an 'alert'"
        self.report.add(fields.key(name), message, hint, code="alert-field")

    def _check_record_name(self, record: Scalar) -> None:
        name = record.value
        if "{" in name or "}" in name:
            message = f"braces in the name of a recorded series: '{name}'"
            hint = "labels go below 'labels:', an expression below 'expr:'"
            self.report.add(record.span, message, hint, code="record-name")
        elif not self._valid(name, _LEGACY_METRIC_NAME):
            message = f"not a valid metric name: '{name}'"
            hint = "letters, digits, '_' and ':', no digit first"
            self.report.add(record.span, message, hint, code="record-name")

    def _valid(self, name: str, legacy: re.Pattern[str]) -> bool:
        return bool(legacy.fullmatch(name)) if self.legacy_names else bool(name)

    def _invalid_name(self, what: str, key: Scalar) -> None:
        message = f"not a valid {what} name: '{key.value}'"
        hint = "letters, digits and '_', no digit first" if key.value else "it is empty"
        self.report.add(key.span, message, hint, code=f"{what}-name")

    def _warn_duplicate(self, name: Scalar, labels: dict[str, str]) -> None:
        identity = (name.value, tuple(sorted(labels.items())))
        line, _ = self.report.source.position(name.span.start)
        first = self._rule_lines.get(identity)
        self._rule_lines.setdefault(identity, line)
        if first is not None:
            message = f"another rule named '{name.value}' has the same labels"
            hint = f"it stands on line {first}; the two write to the same series"
            self.report.add(name.span, message, hint, "duplicate-rule", severity="warning")


def place(offsets: Sequence[int], span: Span) -> Span:
    """Where a span of a scalar's value stands in the file."""
    last = len(offsets) - 1
    start = offsets[min(max(span.start, 0), last)]
    if span.end <= span.start:
        return Span(start, start)
    return Span(start, max(start + 1, offsets[min(span.end, last + 1) - 1] + 1))
