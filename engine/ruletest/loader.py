"""Loads a unit-test file: every problem in one go, each at its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.native_histogram import Histogram, HistogramError
from engine.ruletest.input_series import (
    read_input_series,
    read_rule_files,
    read_series_name,
    read_start_ms,
    read_texts,
    relay,
)
from engine.ruletest.model import (
    DEFAULT_INTERVAL_MS,
    AlertCheck,
    ExpectedAlert,
    ExpectedSample,
    ExpressionCheck,
    Scenario,
    Suite,
)
from engine.ruletest.scalars import read_number, read_truth
from rules.decoding import read_source
from rules.document import Mapping, Scalar, compose
from rules.fields import Fields, Report
from rules.model import Expression
from rules.promql.parser import parse
from rules.slotted import dataclass
from rules.source import ProblemsError, Span

if TYPE_CHECKING:
    import re
    from pathlib import Path

    from rules.document import Node
    from rules.source import Source

_SUITE_FIELDS = (
    "rule_files", "evaluation_interval", "group_eval_order", "tests", "fuzzy_compare",
)  # fmt: skip
_SCENARIO_FIELDS = (
    "name", "interval", "input_series", "alert_rule_test", "promql_expr_test",
    "external_labels", "external_url", "start_timestamp",
)  # fmt: skip
_ALERT_CHECK_FIELDS = ("eval_time", "alertname", "exp_alerts")
_ALERT_FIELDS = ("exp_labels", "exp_annotations")
_EXPRESSION_CHECK_FIELDS = ("expr", "eval_time", "exp_samples")
_SAMPLE_FIELDS = ("labels", "value", "histogram")
_MISPLACED = {
    "groups": "it is a rule file; 'rule_files' names it in a unit-test file",
    "interval": "the evaluation interval is 'evaluation_interval'; 'interval' stands in a test",
    "fuzzy_compare": "it stands at the top of the file, for all tests",
    "evaluation_interval": "it stands at the top of the file, for all tests",
    "labels": "the labels of an alert are 'exp_labels'",
    "annotations": "the annotations of an alert are 'exp_annotations'",
}
# Codes of what promtool reads only when it runs a test.
_CONTENT = frozenset({"series", "expr", "promql", "no-expr", "alertname"})


def load_suite(path: str | Path, run: re.Pattern[str] | None = None) -> Suite:
    """The unit-test file at `path`, with the tests whose name `run` finds (None: all).

    What is wrong inside of another test (a series, an expression) is nobody's concern, as in
    promtool; the fields of the whole file must be right.
    Raises ProblemsError with everything that is wrong with it, UnreadableError if it cannot be
    opened.
    """
    return read_suite(read_source(path), run)


def read_suite(source: Source, run: re.Pattern[str] | None = None) -> Suite:
    """A unit-test file from its text. Raises ProblemsError."""
    report = Report(source)
    document = compose(source)
    report.problems.extend(document.problems)
    suite = None
    if document.root is not None:
        suite = _Reader(report, run).suite(document.root)
    elif not report.failed:
        hint = "it names 'rule_files' and has 'tests'"
        report.add(Span(0, 1), "the file is empty", hint, code="empty")
    if suite is None or report.failed:
        raise ProblemsError(p for p in report.ordered() if p.severity == "error")
    return suite


@dataclass(frozen=True, slots=True)
class _Reader:
    report: Report
    run: re.Pattern[str] | None = None

    def suite(self, root: Node) -> Suite | None:
        fields = Fields.of(self.report, root, "a unit-test file", _SUITE_FIELDS, _MISPLACED)
        if fields is None:
            return None
        interval_ms = fields.duration_ms("evaluation_interval") or DEFAULT_INTERVAL_MS
        tests = enumerate(fields.items("tests"))
        scenarios = [self._chosen(node, number, interval_ms) for number, node in tests]
        return Suite(
            source=self.report.source,
            rule_files=read_rule_files(fields),
            evaluation_interval_ms=interval_ms,
            group_order=self._group_order(fields),
            scenarios=tuple(one for one in scenarios if one is not None),
            fuzzy=self._truth(fields, "fuzzy_compare"),
        )

    def _group_order(self, fields: Fields) -> tuple[str, ...]:
        names = read_texts(fields, "group_eval_order")
        seen: set[str] = set()
        for name in names:
            if name.value in seen:
                message = f"the group '{name.value}' appears twice in the order of evaluation"
                self.report.add(name.span, message, code="group-order")
            seen.add(name.value)
        return tuple(name.value for name in names)

    def _chosen(self, node: Node, number: int, interval_ms: int) -> Scenario | None:
        """A test if it is to be run."""
        name = node.get("name") if isinstance(node, Mapping) else None
        text = name.value.value if name is not None and isinstance(name.value, Scalar) else ""
        if self.run is None or self.run.search(text):
            return self._scenario(node, number, interval_ms)
        report = Report(self.report.source, self.report.problems, _CONTENT)
        _Reader(report)._scenario(node, number, interval_ms)  # noqa: SLF001 - of this class
        return None

    def _scenario(self, node: Node, number: int, interval_ms: int) -> Scenario | None:
        if isinstance(node, Scalar) and node.null:
            return Scenario("", number, node.span, interval_ms)
        fields = Fields.of(self.report, node, "a test", _SCENARIO_FIELDS, _MISPLACED)
        if fields is None:
            return None
        name = fields.text("name")
        url = fields.text("external_url")
        series = read_input_series(fields)
        alerts = [self._alert_check(item) for item in fields.items("alert_rule_test")]
        expressions = [self._expression_check(item) for item in fields.items("promql_expr_test")]
        return Scenario(
            name="" if name is None else name.value,
            number=number,
            span=fields.head if name is None else name.span,
            interval_ms=fields.duration_ms("interval") or interval_ms,
            start_ms=read_start_ms(fields),
            series=series,
            alert_checks=tuple(one for one in alerts if one is not None),
            expression_checks=tuple(one for one in expressions if one is not None),
            external_labels={k.value: v.value for k, v in fields.texts("external_labels")},
            external_url="" if url is None else url.value,
        )

    def _alert_check(self, node: Node) -> AlertCheck | None:
        fields = Fields.of(self.report, node, "an alert_rule_test", _ALERT_CHECK_FIELDS)
        if fields is None:
            return None
        time_ms = fields.duration_ms("eval_time") or 0
        name = fields.text("alertname")
        if name is None or not name.value:
            if fields.entry("alertname") is None or name is not None:
                hint = "the name of the rule whose alerts are expected"
                message = "an alert_rule_test needs an 'alertname'"
                self.report.add(fields.head, message, hint, code="alertname")
            return None
        alerts = [self._alert(item, name.value) for item in fields.items("exp_alerts")]
        expected = tuple(one for one in alerts if one is not None)
        return AlertCheck(fields.head, time_ms, name.value, expected)

    def _alert(self, node: Node, alertname: str) -> ExpectedAlert | None:
        labels: dict[str, str] = {}
        annotations: dict[str, str] = {}
        if not (isinstance(node, Scalar) and node.null):
            fields = Fields.of(self.report, node, "an alert", _ALERT_FIELDS, _MISPLACED)
            if fields is None:
                return None
            labels = {key.value: value.value for key, value in fields.texts("exp_labels")}
            annotations = {key.value: value.value for key, value in fields.texts("exp_annotations")}
        labels["alertname"] = alertname
        return ExpectedAlert(labels, annotations, node.span)

    def _expression_check(self, node: Node) -> ExpressionCheck | None:
        fields = Fields.of(self.report, node, "a promql_expr_test", _EXPRESSION_CHECK_FIELDS)
        if fields is None:
            return None
        time_ms = fields.duration_ms("eval_time") or 0
        samples = [self._sample(item) for item in fields.items("exp_samples")]
        expected = tuple(one for one in samples if one is not None)
        scalar = fields.text("expr")
        if scalar is None or not scalar.value.strip():
            if fields.entry("expr") is None or scalar is not None:
                message = "a promql_expr_test needs an 'expr'"
                self.report.add(fields.head, message, "such as 'expr: up == 0'", code="no-expr")
            return None
        try:
            tree = parse(scalar.value)
        except ProblemsError as error:
            relay(self.report, error, scalar)
            return None
        source = self.report.source
        expression = Expression(scalar.value, tree, source, scalar.offsets(source.text))
        return ExpressionCheck(scalar.span, time_ms, expression, expected)

    def _sample(self, node: Node) -> ExpectedSample | None:
        if isinstance(node, Scalar) and node.null:
            return ExpectedSample({}, 0.0, node.span)
        fields = Fields.of(self.report, node, "an expected sample", _SAMPLE_FIELDS)
        if fields is None:
            return None
        labels = fields.text("labels")
        histogram = fields.text("histogram")
        found = {} if labels is None else read_series_name(self.report, labels)
        text = "" if histogram is None else self._histogram(histogram)
        value = self._number(fields, "value")
        return None if found is None else ExpectedSample(found, value, fields.head, text)

    def _histogram(self, scalar: Scalar) -> str:
        """The canonical text."""
        try:
            return str(Histogram.read(scalar.value.strip())) if scalar.value.strip() else ""
        except HistogramError as error:
            self.report.add(scalar.span, str(error), code="series")
            return ""

    def _number(self, fields: Fields, name: str) -> float:
        scalar = fields.text(name)
        if scalar is None:
            return 0.0
        value = None if scalar.style else read_number(scalar.value)
        if value is None:
            message = f"'{name}' must be a number, not '{scalar.value[:40]}'"
            hint = "infinity is .inf, 'not a number' is .nan in YAML; no quotes around a number"
            self.report.add(scalar.span, message, hint, code="type")
            return 0.0
        return value

    def _truth(self, fields: Fields, name: str) -> bool:
        scalar = fields.text(name)
        if scalar is None:
            return False
        value = None if scalar.style else read_truth(scalar.value)
        if value is None:
            message = f"'{name}' must be true or false, not '{scalar.value[:40]}'"
            self.report.add(scalar.span, message, code="type")
            return False
        return value
