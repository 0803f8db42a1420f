"""The fast pack: the same rules with every duration divided, layout and comments kept.

For demonstrations and tests that cannot wait five minutes. A group without an `interval` runs at
the global one, which has to be divided beside this, like the flush interval.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rules.document import Mapping, Scalar, Sequence, compose
from rules.durations import DurationError, format_duration, parse_duration
from rules.groups import place
from rules.promql.ast import NumberLiteral
from rules.promql.duration_expressions import durations
from rules.promql.parser import parse
from rules.promql.walk import walk
from rules.slotted import dataclass, field
from rules.source import ProblemsError, Source, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.document import Node
    from rules.promql.ast import Expr

_GROUP_DURATIONS = ("interval", "query_offset")
_RULE_DURATIONS = ("for", "keep_firing_for")
# A duration as a word of its own: `5m` in "over 5m", not in "v5m", "5m.example" or "-5m-".
_WORD = re.compile(r"(?<![\w./:-])(?:[0-9]+(?:ms|[ywdhms]))+(?![\w/-]|\.\w)")


def divide_durations(text: str, divisor: int) -> str:
    """The rule file `text` with every duration divided by `divisor`.

    Those are `interval`, `query_offset`, `for`, `keep_firing_for`, the ranges, offsets, steps and
    duration numbers of expressions, and durations that stand as words in annotations. What falls
    below a millisecond becomes one. Raises ProblemsError when the text is not a rule file.
    """
    source = Source("<rules>", text)
    document = compose(source)
    if document.root is None or any(p.severity == "error" for p in document.problems):
        raise ProblemsError(document.problems)
    edits = _Edits(text, divisor)
    for group in _groups(document.root):
        edits.group(group)
    return edits.applied()


def _groups(root: Node) -> Iterator[Mapping]:
    if not isinstance(root, Mapping):
        return
    spec = root.get("spec")
    owner = spec.value if spec is not None and isinstance(spec.value, Mapping) else root
    yield from _mappings(owner, "groups")


def _mappings(owner: Mapping, name: str) -> Iterator[Mapping]:
    entry = owner.get(name)
    if entry is not None and isinstance(entry.value, Sequence):
        yield from (item for item in entry.value.items if isinstance(item, Mapping))


@dataclass(slots=True)
class _Edits:
    text: str
    divisor: int
    # By place, so that what an alias repeats is rewritten once.
    replacements: dict[Span, str] = field(default_factory=dict)

    def applied(self) -> str:
        text = self.text
        for span in sorted(self.replacements, reverse=True):
            text = text[: span.start] + self.replacements[span] + text[span.end :]
        return text

    def group(self, group: Mapping) -> None:
        for name in _GROUP_DURATIONS:
            self._field(group, name)
        for rule in _mappings(group, "rules"):
            for name in _RULE_DURATIONS:
                self._field(rule, name)
            self._expression(rule)
            self._annotations(rule)

    def _divided(self, milliseconds: int) -> str:
        if milliseconds == 0:
            return "0s"
        sign = -1 if milliseconds < 0 else 1
        return format_duration(sign * max(1, round(abs(milliseconds) / self.divisor)))

    def _field(self, owner: Mapping, name: str) -> None:
        entry = owner.get(name)
        if entry is None or not isinstance(entry.value, Scalar) or entry.value.null:
            return
        scalar = entry.value
        try:
            divided = self._divided(parse_duration(scalar.value))
        except DurationError:
            return
        self._replace(scalar, Span(0, len(scalar.value)), divided)

    def _replace(self, scalar: Scalar, span: Span, new: str) -> None:
        self.replacements[place(scalar.offsets(self.text), span)] = new

    def _expression(self, rule: Mapping) -> None:
        entry = rule.get("expr")
        if entry is None or not isinstance(entry.value, Scalar):
            return
        scalar = entry.value
        for span, milliseconds in _durations(parse(scalar.value)):
            self._replace(scalar, span, self._divided(milliseconds))

    def _annotations(self, rule: Mapping) -> None:
        entry = rule.get("annotations")
        if entry is None or not isinstance(entry.value, Mapping):
            return
        for annotation in entry.value.entries:
            scalar = annotation.value
            if not isinstance(scalar, Scalar) or "://" in scalar.value:
                continue
            for found in _WORD.finditer(scalar.value):
                try:
                    divided = self._divided(parse_duration(found.group()))
                except DurationError:
                    continue
                self._replace(scalar, Span(*found.span()), divided)


def _durations(expr: Expr) -> Iterator[tuple[Span, int]]:
    for node in walk(expr):
        for duration in durations(node):
            if duration.expr is None:
                yield duration.span, duration.milliseconds
            else:
                # Of arithmetic, what is written as a duration: [5m * 2], [step() + 1m].
                yield from _numbers(duration.expr)
        if isinstance(node, NumberLiteral):
            yield from _numbers(node)


def _numbers(expr: Expr) -> Iterator[tuple[Span, int]]:
    return (
        (node.span, round(node.value * 1000))
        for node in walk(expr)
        if isinstance(node, NumberLiteral) and node.duration
    )
