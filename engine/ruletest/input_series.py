"""The `input_series` of a test, and the other parts that kinds of test files have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.labels import Labels
from engine.ruletest.model import InputSeries, RuleFilePattern
from engine.ruletest.notation import MOST_SAMPLES, read_metric, read_values
from engine.ruletest.start_times import START_SUFFIX, StartTimeError, StartTimes
from engine.timestamps import parse_timestamp
from rules.document import Mapping, Scalar
from rules.fields import Fields
from rules.groups import place
from rules.slotted import dataclass, replace
from rules.source import ProblemsError

if TYPE_CHECKING:
    from rules.document import Node
    from rules.fields import Report

_SERIES_FIELDS = ("series", "values")


def read_input_series(fields: Fields) -> tuple[InputSeries, ...]:
    """The field `input_series` of a test; what is wrong is reported."""
    reader = _SeriesReader(fields.report)
    items = fields.items("input_series")
    series = reader.read(items)
    for item in items[:-1]:
        reader.refuse_line_end(item)
    if sum(len(one.sequence.values) for one in series) > MOST_SAMPLES:
        message = f"more than {MOST_SAMPLES:,} samples in one test"
        fields.report.add(fields.key("input_series"), message, code="series")
    return tuple(series)


def read_rule_files(fields: Fields) -> tuple[RuleFilePattern, ...]:
    """The field `rule_files`."""
    return tuple(RuleFilePattern(one.value, one.span) for one in read_texts(fields, "rule_files"))


def read_start_ms(fields: Fields) -> int:
    """The field `start_timestamp`, in unix milliseconds; 0 without it."""
    scalar = fields.text("start_timestamp")
    if scalar is None:
        return 0
    try:
        return parse_timestamp(scalar.value)
    except ValueError:
        message = f"not a time: '{scalar.value[:60]}'"
        hint = "unix seconds (1704067200) or RFC 3339 ('2024-01-01T00:00:00Z')"
        fields.report.add(scalar.span, message, hint, code="time")
        return 0


def read_texts(fields: Fields, name: str) -> list[Scalar]:
    """A field that is a list of texts."""
    found = []
    for item in fields.items(name):
        if isinstance(item, Scalar):
            found.append(item)
        else:
            message = f"an item of '{name}' must be text"
            fields.report.add(item.span, message, code="type")
    return found


def read_series_name(report: Report, scalar: Scalar) -> dict[str, str] | None:
    """The labels of `name{label="value"}`; None: reported."""
    try:
        return read_metric(scalar.value)
    except ProblemsError as error:
        relay(report, error, scalar)
        return None


def relay(report: Report, error: ProblemsError, scalar: Scalar) -> None:
    """Report problems inside of a scalar's text at their places in the file."""
    offsets = scalar.offsets(report.source.text)
    for found in error.problems:
        span = place(offsets, found.span)
        report.add(span, found.message, found.hint, found.code or "expr", found.severity)


@dataclass(frozen=True, slots=True)
class _SeriesReader:
    report: Report

    def read(self, nodes: tuple[Node, ...]) -> list[InputSeries]:
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
        labels = read_series_name(self.report, name)
        try:
            sequence = read_values("" if values is None else values.value)
        except ProblemsError as error:
            relay(self.report, error, values or name)
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
            relay(self.report, error, name)
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

    def refuse_line_end(self, node: Node) -> None:
        """At an empty line promtool stops reading: the series that follow would be lost there."""
        entry = node.get("values") if isinstance(node, Mapping) else None
        if entry is not None and isinstance(entry.value, Scalar) and "\n" in entry.value.value:
            message = "values end with a line break: promtool loses all series that follow"
            self.report.add(entry.value.span, message, "write '>-' instead of '|' or '>'", "series")
