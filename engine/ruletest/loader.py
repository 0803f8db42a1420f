"""Loads a unit-test file: every problem in one go, each at its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.labels import Labels
from engine.native_histogram import Histogram, HistogramError
from engine.ruletest.model import (
    DEFAULT_INTERVAL_MS,
    AlertCheck,
    ExpectedAlert,
    ExpectedSample,
    ExpressionCheck,
    InputSeries,
    RuleFilePattern,
    Scenario,
    Suite,
)
from engine.ruletest.notation import MOST_SAMPLES, read_metric, read_values
from engine.ruletest.scalars import read_number, read_truth
from engine.ruletest.start_times import START_SUFFIX, StartTimeError, StartTimes
from engine.timestamps import parse_timestamp
from rules.decoding import read_source
from rules.document import Mapping, Scalar, compose
from rules.fields import Fields, Report
from rules.groups import place
from rules.model import Expression
from rules.promql.parser import parse
from rules.slotted import dataclass, replace
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
_SERIES_FIELDS = ("series", "values")
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
            rule_files=tuple(
                RuleFilePattern(one.value, one.span) for one in self._texts(fields, "rule_files")
            ),
            evaluation_interval_ms=interval_ms,
            group_order=self._group_order(fields),
            scenarios=tuple(one for one in scenarios if one is not None),
            fuzzy=self._truth(fields, "fuzzy_compare"),
        )

    def _group_order(self, fields: Fields) -> tuple[str, ...]:
        names = self._texts(fields, "group_eval_order")
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
        items = fields.items("input_series")
        series = self._input_series(items)
        for item in items[:-1]:
            self._refuse_line_end(item)
        if sum(len(one.sequence.values) for one in series) > MOST_SAMPLES:
            message = f"more than {MOST_SAMPLES:,} samples in one test"
            self.report.add(fields.key("input_series"), message, code="series")
        alerts = [self._alert_check(item) for item in fields.items("alert_rule_test")]
        expressions = [self._expression_check(item) for item in fields.items("promql_expr_test")]
        return Scenario(
            name="" if name is None else name.value,
            number=number,
            span=fields.head if name is None else name.span,
            interval_ms=fields.duration_ms("interval") or interval_ms,
            start_ms=self._start_ms(fields),
            series=tuple(series),
            alert_checks=tuple(one for one in alerts if one is not None),
            expression_checks=tuple(one for one in expressions if one is not None),
            external_labels={k.value: v.value for k, v in fields.texts("external_labels")},
            external_url="" if url is None else url.value,
        )

    def _start_ms(self, fields: Fields) -> int:
        scalar = fields.text("start_timestamp")
        if scalar is None:
            return 0
        try:
            return parse_timestamp(scalar.value)
        except ValueError:
            message = f"not a time: '{scalar.value[:60]}'"
            hint = "unix seconds (1704067200) or RFC 3339 ('2024-01-01T00:00:00Z')"
            self.report.add(scalar.span, message, hint, code="time")
            return 0

    def _input_series(self, nodes: tuple[Node, ...]) -> list[InputSeries]:
        found: list[InputSeries] = []
        starts = StartTimes()
        for node in nodes:
            fields = Fields.of(self.report, node, "an input series", _SERIES_FIELDS)
            if fields is None:
                continue
            name, values = fields.text("series"), fields.text("values")
            if name is None or not name.value.strip():
                if fields.entry("series") is None or name is not None:
                    self.report.add(fields.head, "an input series needs a 'series'", code="series")
                continue
            if name.value.strip().endswith(START_SUFFIX):
                self._read_starts(starts, name, values)
            elif (series := self._series(name, values)) is not None:
                found.append(self._started(starts, series))
        self._waiting(starts)
        return found

    def _series(self, name: Scalar, values: Scalar | None) -> InputSeries | None:
        labels = self._labels(name)
        try:
            sequence = read_values("" if values is None else values.value)
        except ProblemsError as error:
            self._relay(error, values or name)
            return None
        return None if labels is None else InputSeries(Labels(labels), sequence, name.span)

    def _read_starts(self, starts: StartTimes, name: Scalar, values: Scalar | None) -> None:
        """An entry that says since when the samples of the next one count."""
        self._waiting(starts)
        text = name.value.strip().removesuffix(START_SUFFIX)
        try:
            labels = Labels(read_metric(text))
            starts.read(labels, "" if values is None else values.value, name.span)
        except ProblemsError as error:
            self._relay(error, name)
        except StartTimeError as error:
            self.report.add((values or name).span, str(error), error.hint, code="series")

    def _started(self, starts: StartTimes, series: InputSeries) -> InputSeries:
        try:
            return replace(series, starts=starts.of(series.labels, series.sequence.values.size))
        except StartTimeError as error:
            self.report.add(series.span, str(error), error.hint, code="series")
            return series

    def _waiting(self, starts: StartTimes) -> None:
        span = starts.settle()
        if span is not None:
            message = f"no series follows this '{START_SUFFIX}'"
            self.report.add(span, message, "its samples come right after it", code="series")

    def _refuse_line_end(self, node: Node) -> None:
        """At an empty line promtool stops reading: the series that follow would be lost there."""
        entry = node.get("values") if isinstance(node, Mapping) else None
        if entry is not None and isinstance(entry.value, Scalar) and "\n" in entry.value.value:
            message = "values end with a line break: promtool loses all series that follow"
            self.report.add(entry.value.span, message, "write '>-' instead of '|' or '>'", "series")

    def _labels(self, scalar: Scalar) -> dict[str, str] | None:
        try:
            return read_metric(scalar.value)
        except ProblemsError as error:
            self._relay(error, scalar)
            return None

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
            self._relay(error, scalar)
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
        found = {} if labels is None else self._labels(labels)
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

    def _texts(self, fields: Fields, name: str) -> list[Scalar]:
        found = []
        for item in fields.items(name):
            if isinstance(item, Scalar):
                found.append(item)
            else:
                message = f"an item of '{name}' must be text"
                self.report.add(item.span, message, code="type")
        return found

    def _relay(self, error: ProblemsError, scalar: Scalar) -> None:
        """Problems inside of a scalar's text, at their places in the file."""
        offsets = scalar.offsets(self.report.source.text)
        for found in error.problems:
            span = place(offsets, found.span)
            self.report.add(span, found.message, found.hint, found.code or "expr", found.severity)
