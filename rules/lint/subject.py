"""A rule as a check sees it: with its analysis and the places of its parts in the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from rules.document import Mapping as YamlMapping
from rules.document import Scalar, Sequence, compose
from rules.groups import place
from rules.lint.analysis import Analysis
from rules.lint.label_flow import NAME
from rules.model import AlertingRule
from rules.source import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Sequence as Items

    from rules.document import Document, Entry, Node
    from rules.lint.label_flow import Flow
    from rules.model import Group, Rule, RuleFile
    from rules.promql.ast import Matcher
    from rules.scalars import Offsets
    from rules.source import Span

IGNORE_ANNOTATION = "stallwatch_lint_ignore"


class Data(Protocol):
    """Recorded series, to ask whether a selector finds any."""

    def matches(self, matchers: Items[Matcher]) -> bool:
        """Whether any series satisfies all matchers."""
        ...

    def metric_names(self) -> Items[str]:
        """Every metric name there is."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """What rules are checked against.

    `interval_ms`: how often groups that name no interval are evaluated. `sample_interval_ms`: how
    far samples are apart. `data`: recorded series, where there are any. `ignored`: codes.
    """

    interval_ms: int = 10_000
    sample_interval_ms: int = 10_000
    data: Data | None = None
    ignored: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TemplateText:
    """The template of a label or an annotation. `offsets` as in `rules.model.Expression`."""

    name: str
    text: str
    offsets: Offsets


@dataclass(frozen=True)
class Subject:
    """One rule. `recorded`: the labels of what any rule under check records, by name."""

    rule: Rule
    group: Group
    file: RuleFile
    settings: Settings
    recorded: Mapping[str, Flow] = field(default_factory=dict)
    mapping: YamlMapping | None = field(default=None, repr=False)

    @cached_property
    def analysis(self) -> Analysis:
        """What can be said of its expression."""
        interval_ms = self.settings.sample_interval_ms
        return Analysis(self.rule.expression.tree, interval_ms, self.recorded)

    @property
    def interval_ms(self) -> int:
        """How often it is evaluated."""
        return self.group.interval_ms or self.settings.interval_ms

    @property
    def ignored(self) -> frozenset[str]:
        """Codes that are not to be reported here."""
        if not isinstance(self.rule, AlertingRule):
            return self.settings.ignored
        own = self.rule.annotations.get(IGNORE_ANNOTATION, "")
        return self.settings.ignored | {code.strip() for code in own.split(",") if code.strip()}

    def templates(self, section: str) -> list[TemplateText]:
        """The templates below `labels` or `annotations`, those of the rule itself only."""
        return [
            TemplateText(entry.key.value, entry.value.value, entry.value.offsets(self._text))
            for entry in self._entries(section)
            if isinstance(entry.value, Scalar) and "{{" in entry.value.value
        ]

    def key_span(self, name: str) -> Span:
        """Where the value of a field stands; the rule's first line if it is not written here."""
        entry = None if self.mapping is None else self.mapping.get(name)
        return self.rule.span if entry is None else entry.value.span

    def in_expression(self, code: str, span: Span, message: str, hint: str = "") -> Problem:
        """A finding in the expression."""
        return self.at(code, place(self.rule.expression.offsets, span), message, hint)

    def in_template(
        self, code: str, template: TemplateText, span: Span, message: str, hint: str = ""
    ) -> Problem:
        """A finding in a template."""
        return self.at(code, place(template.offsets, span), message, hint)

    def at(self, code: str, span: Span, message: str, hint: str = "") -> Problem:
        """A finding anywhere in the file."""
        return Problem(self.file.source, span, message, hint, code, "warning")

    @property
    def _text(self) -> str:
        return self.file.source.text

    def _entries(self, section: str) -> tuple[Entry, ...]:
        entry = None if self.mapping is None else self.mapping.get(section)
        if entry is None or not isinstance(entry.value, YamlMapping):
            return ()
        return entry.value.entries


def recorded_flows(files: Items[RuleFile]) -> dict[str, Flow]:
    """What labels the series have that the files' recording rules write, by name."""
    found: dict[str, Flow] = {}
    for file in files:
        for group in file.groups:
            for rule in group.rules:
                if isinstance(rule, AlertingRule):
                    continue
                own = Analysis(rule.expression.tree, 0, found).flow(rule.expression.tree)
                own = own.without([NAME]).adding(NAME, *rule.labels)
                own = own.with_fixed({**rule.labels, NAME: rule.name})
                found[rule.name] = found[rule.name].either(own) if rule.name in found else own
    return found


def subjects(file: RuleFile, settings: Settings, recorded: Mapping[str, Flow]) -> Iterator[Subject]:
    """The rules of a file, in order."""
    mappings = _mappings(compose(file.source))
    for group in file.groups:
        for rule in group.rules:
            yield Subject(rule, group, file, settings, recorded, mappings.get(rule.span))


def _mappings(document: Document) -> dict[Span, YamlMapping]:
    found: dict[Span, YamlMapping] = {}
    pending: list[Node] = [] if document.root is None else [document.root]
    while pending:
        node = pending.pop()
        if isinstance(node, YamlMapping):
            found.setdefault(node.span, node)
            pending += [entry.value for entry in node.entries]
        elif isinstance(node, Sequence):
            pending += node.items
    return found
