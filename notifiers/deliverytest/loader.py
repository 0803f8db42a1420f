"""Loads a file of delivery tests: every problem in one go, each at its place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

from engine.alerts.matchers import Matcher, MatcherError, parse_matchers
from engine.labels import Labels
from engine.ruletest.input_series import (
    read_input_series,
    read_rule_files,
    read_start_ms,
    read_texts,
)
from engine.ruletest.model import DEFAULT_INTERVAL_MS, Scenario, Suite
from notifiers.deliverytest.model import (
    DeliveryScenario,
    DeliverySuite,
    ExpectedMessage,
    StatedAlert,
    StatedSilence,
    WantedAlert,
)
from notifiers.dispatch.deduplication import Reason
from notifiers.silences.silence import LATEST_MS, Silence, SilenceError, check
from rules.decoding import read_source
from rules.document import Mapping, Scalar, Sequence, compose
from rules.durations import format_duration
from rules.fields import Fields, Report, did_you_mean
from rules.groups import place
from rules.slotted import dataclass
from rules.source import ProblemsError, Span

if TYPE_CHECKING:
    import re

    from notifiers.deliverytest.model import Wanted
    from rules.document import Node
    from rules.source import Source

TESTS = "delivery_tests"
CONFIGS = ("config", "alertmanager_config")
REASONS = get_args(Reason)
_SUITE = (*CONFIGS, "rule_files", "evaluation_interval", TESTS)
_TEST = (
    "name", "start_timestamp", "alerts", "silences", "messages", "receivers", "until",
    "interval", "input_series",
)  # fmt: skip
_ALERT = ("labels", "annotations", "starts", "ends")
_SILENCE = ("matchers", "starts", "ends")
_MESSAGE = ("receiver", "integration", "at", "firing", "resolved", "reason")
_MISPLACED = {
    "tests": f"tests of delivery are '{TESTS}'; tests of rules stand in a file of their own",
    "eval_time": "a message has its time in 'at'",
    "time": "a message has its time in 'at'",
    "startsAt": "did you mean 'starts'? It counts from the start of the test",
    "endsAt": "did you mean 'ends'? It counts from the start of the test",
    "starts_at": "did you mean 'starts'?",
    "ends_at": "did you mean 'ends'?",
    "exp_alerts": "a message has its alerts in 'firing' and 'resolved'",
}
# Simulated time that a typing error does not reach; a year of five-minute groups takes seconds.
LONGEST_MS = 366 * 86_400_000


def load_suite(path: str | Path, run: re.Pattern[str] | None = None) -> DeliverySuite:
    """The file at `path`, with the tests whose name `run` finds (None: all).

    Raises ProblemsError with everything that is wrong with it, UnreadableError.
    """
    source = read_source(path)
    report = Report(source)
    document = compose(source)
    report.problems.extend(document.problems)
    suite = None
    if document.root is not None:
        suite = _Reader(report).suite(document.root, Path(path).parent, run)
    elif not report.failed:
        hint = f"it names a 'config' and has '{TESTS}'"
        report.add(Span(0, 1), "the file is empty", hint, code="empty")
    if suite is None or report.failed:
        raise ProblemsError(p for p in report.ordered() if p.severity == "error")
    return suite


@dataclass(frozen=True, slots=True)
class _Reader:
    report: Report

    @property
    def _source(self) -> Source:
        return self.report.source

    def suite(self, root: Node, folder: Path, run: re.Pattern[str] | None) -> DeliverySuite | None:
        fields = Fields.of(self.report, root, "a file of delivery tests", _SUITE, _MISPLACED)
        if fields is None:
            return None
        interval_ms = fields.duration_ms("evaluation_interval") or DEFAULT_INTERVAL_MS
        nodes = enumerate(fields.items(TESTS))
        tests = [self._test(node, number, interval_ms) for number, node in nodes]
        if not tests and TESTS not in fields.misspelt and fields.entry(TESTS) is not None:
            hint = "each starts with '- name:'"
            self.report.add(fields.key(TESTS), "there is no test in it", hint, "empty")
        config = self._config(fields)
        self._refuse_unread_series(fields, tests)
        if config is None:
            return None
        rules = Suite(self._source, read_rule_files(fields), interval_ms, (), ())
        chosen = [one for one in tests if one and (run is None or run.search(one.rules.name))]
        is_theirs = fields.entry("config") is None
        return DeliverySuite(
            self._source, folder / config.value, config.span, is_theirs, rules, tuple(chosen)
        )

    def _refuse_unread_series(self, fields: Fields, tests: list[DeliveryScenario | None]) -> None:
        lost = next((series for one in tests if one for series in one.rules.series), None)
        if lost is not None and fields.entry("rule_files") is None:
            hint = "name them in 'rule_files'"
            self.report.add(lost.span, "a series, and no rules that read it", hint, "series")

    def _config(self, fields: Fields) -> Scalar | None:
        found = [name for name in CONFIGS if fields.entry(name) is not None]
        if len(found) == 1:
            return fields.text(found[0])
        if found:
            message = f"'{found[0]}' and '{found[1]}' are both given"
            self.report.add(fields.key(found[1]), message, "keep one", "config")
        elif not fields.misspelt.intersection(CONFIGS):
            hint = "'config: stallwatch.yaml', or 'alertmanager_config: alertmanager.yml'"
            self.report.add(fields.head, "it does not say whose routes are tested", hint, "config")
        return None

    def _test(self, node: Node, number: int, interval_ms: int) -> DeliveryScenario | None:
        fields = Fields.of(self.report, node, "a delivery test", _TEST, _MISPLACED)
        if fields is None:
            return None
        name = fields.text("name")
        rules = Scenario(
            name="" if name is None else name.value,
            number=number,
            span=fields.head if name is None else name.span,
            interval_ms=fields.duration_ms("interval") or interval_ms,
            start_ms=read_start_ms(fields),
            series=read_input_series(fields),
        )
        alerts = [self._alert(one) for one in fields.items("alerts")]
        silences = [self._silence(one) for one in fields.items("silences")]
        messages = [self._message(one) for one in fields.items("messages")]
        if fields.mapping.get("messages") is None and "messages" not in fields.misspelt:
            hint = "'messages: []' says that nobody is told"
            self.report.add(fields.head, "a delivery test needs 'messages'", hint, "messages")
        stated = tuple(one for one in alerts if one is not None)
        self._refuse_overlap(stated)
        return DeliveryScenario(
            rules,
            fields.key("messages"),
            stated,
            tuple(one for one in silences if one is not None),
            tuple(one for one in messages if one is not None),
            tuple(read_texts(fields, "receivers")),
            self._time(fields, "until"),
        )

    def _time(self, fields: Fields, name: str) -> int | None:
        found = fields.duration_ms(name)
        if found is not None and not 0 <= found <= LONGEST_MS:
            message = f"'{name}' is not within a year of the start"
            self.report.add(fields.key(name), message, code="time")
            return 0
        return found

    def _span_of_time(self, fields: Fields, what: str) -> tuple[int, int | None]:
        starts, ends = self._time(fields, "starts") or 0, self._time(fields, "ends")
        if ends is not None and ends <= starts:
            message = f"{what} ends at {format_duration(ends)}, not after it starts"
            hint = "both count from the start of the test"
            self.report.add(fields.key("ends"), message, hint, "time")
        return starts, ends

    def _alert(self, node: Node) -> StatedAlert | None:
        fields = Fields.of(self.report, node, "an alert", _ALERT, _MISPLACED)
        if fields is None:
            return None
        labels = Labels((key.value, value.value) for key, value in fields.texts("labels"))
        if not labels.get("alertname") and "labels" not in fields.misspelt:
            hint = "'labels: {alertname: LinkDown}'"
            self.report.add(fields.head, "an alert needs the label 'alertname'", hint, "labels")
        starts, ends = self._span_of_time(fields, "the alert")
        annotations = {key.value: value.value for key, value in fields.texts("annotations")}
        return StatedAlert(fields.head, labels, annotations, starts, ends)

    def _refuse_overlap(self, alerts: tuple[StatedAlert, ...]) -> None:
        over: dict[Labels, int | None] = {}
        for one in sorted(alerts, key=lambda one: one.starts_ms):
            before = over.get(one.labels, -1)
            if before is None or before > one.starts_ms:
                message = f"the alert {one.labels} fires already at that time"
                self.report.add(one.span, message, "end the one before first", "time")
            over[one.labels] = one.ends_ms

    def _silence(self, node: Node) -> StatedSilence | None:
        fields = Fields.of(self.report, node, "a silence", _SILENCE, _MISPLACED)
        if fields is None:
            return None
        entry = fields.entry("matchers")
        matchers: tuple[Matcher, ...] = ()
        if entry is not None:
            nodes = entry.value.items if isinstance(entry.value, Sequence) else (entry.value,)
            matchers = tuple(one for node in nodes for one in self._matchers(node, "matchers"))
        elif "matchers" not in fields.misspelt:
            hint = "'matchers: [alertname=\"LinkDown\"]'"
            self.report.add(fields.head, "a silence needs 'matchers'", hint, "matcher")
        starts, ends = self._span_of_time(fields, "the silence")
        if matchers:
            try:
                check(Silence("", matchers, starts, LATEST_MS))
            except SilenceError as error:
                self.report.add(fields.key("matchers"), str(error), code="matcher")
        return StatedSilence(fields.head, matchers, starts, ends)

    def _matchers(self, node: Node, name: str) -> tuple[Matcher, ...]:
        if not isinstance(node, Scalar):
            hint = "such as 'severity=\"critical\"' in quotes"
            self.report.add(node.span, f"each of '{name}' is text", hint, "matcher")
            return ()
        try:
            return parse_matchers(node.value)
        except MatcherError as error:
            span = place(node.offsets(self._source.text), Span(error.start, error.end))
            self.report.add(span, error.message, error.hint, "matcher")
            return ()

    def _message(self, node: Node) -> ExpectedMessage | None:
        fields = Fields.of(self.report, node, "a message", _MESSAGE, _MISPLACED)
        if fields is None:
            return None
        for name in ("receiver", "at"):
            if fields.entry(name) is None and name not in fields.misspelt:
                self.report.add(fields.head, f"a message needs '{name}'", code="messages")
        firing, resolved = self._wanted(fields, "firing"), self._wanted(fields, "resolved")
        if not (firing or resolved) and not fields.misspelt:
            message = "a message tells of an alert at least: 'firing' or 'resolved'"
            self.report.add(fields.head, message, code="messages")
        receiver, integration = fields.text("receiver"), fields.text("integration")
        return ExpectedMessage(
            fields.head,
            self._time(fields, "at") or 0,
            receiver or Scalar(fields.head, ""),
            firing,
            resolved,
            self._reason(fields),
            "" if integration is None else integration.value,
        )

    def _reason(self, fields: Fields) -> str:
        scalar = fields.text("reason")
        if scalar is not None and scalar.value not in REASONS:
            hint = did_you_mean(scalar.value, REASONS)
            message = f"no message is made because of '{scalar.value[:40]}'"
            self.report.add(scalar.span, message, hint, "messages")
        return "" if scalar is None else scalar.value

    def _wanted(self, fields: Fields, name: str) -> Wanted:
        entry = fields.entry(name)
        if entry is not None and isinstance(entry.value, Scalar):
            number = fields.integer(name)
            if number < 0:
                self.report.add(entry.value.span, f"'{name}' counts alerts", code="messages")
            return number
        found = [self._wanted_alert(node, name) for node in fields.items(name)]
        return tuple(one for one in found if one is not None)

    def _wanted_alert(self, node: Node, name: str) -> WantedAlert | None:
        """An alert by some of its labels, or by matchers."""
        if isinstance(node, Scalar):
            return WantedAlert(self._matchers(node, name), node.value)
        if not isinstance(node, Mapping):
            message = f"each of '{name}' is an alert's labels"
            self.report.add(node.span, message, "such as '{alertname: LinkDown}'", "messages")
            return None
        pairs = [(one.key.value, one.value) for one in node.entries]
        labels = {}
        for key, value in pairs:
            if isinstance(value, Scalar):
                labels[key] = "" if value.null else value.value
            else:
                self.report.add(value.span, f"the label '{key}' is text", code="type")
        matchers = tuple(Matcher(key, "=", value) for key, value in labels.items())
        return WantedAlert(matchers, str(Labels(labels)))
