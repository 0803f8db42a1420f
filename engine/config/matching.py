"""Matchers in a configuration: `matchers`, and the deprecated `match` and `match_re`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.alerts.matchers import Matcher, MatcherError, ordered, parse_matchers
from rules.document import Mapping, Scalar, Sequence
from rules.promql.regex import PatternError
from rules.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.alerts.matchers import Operator
    from rules.document import Node
    from rules.fields import Fields, Report

_CLASSIC_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def read_matchers(fields: Fields, names: tuple[str, str, str]) -> tuple[Matcher, ...]:
    """All matchers of a section, in Alertmanager's order; problems are reported.

    `names`: the fields of matchers, of equal values and of expressions.
    """
    matchers, equal, expressions = names
    return ordered(
        (
            *_pairs(fields, equal, "="),
            *_pairs(fields, expressions, "=~"),
            *_listed(fields, matchers),
        )
    )


def _listed(fields: Fields, name: str) -> Iterator[Matcher]:
    """A list of texts with one or more matchers each, or one such text."""
    entry = fields.entry(name)
    if entry is None:
        return
    nodes = entry.value.items if isinstance(entry.value, Sequence) else (entry.value,)
    for node in nodes:
        if not isinstance(node, Scalar):
            hint = "such as 'severity=\"critical\"' in quotes"
            fields.report.add(node.span, f"each of '{name}' is text", hint, "matcher")
            continue
        try:
            yield from parse_matchers(node.value)
        except MatcherError as error:
            span = _within(fields.report, node, error.start, error.end)
            fields.report.add(span, error.message, error.hint, "matcher")


def _pairs(fields: Fields, name: str, op: Operator) -> Iterator[Matcher]:
    entry = fields.entry(name)
    nothing = {
        one.key.span
        for one in (entry.value.entries if entry and isinstance(entry.value, Mapping) else ())
        if isinstance(one.value, Scalar) and one.value.null
    }
    for key, value in fields.texts(name):
        if not _CLASSIC_LABEL.fullmatch(key.value):
            hint = f"other labels go into '{name.replace('_re', '')}ers'"
            fields.report.add(key.span, f"'{key.value}' is no label's name", hint, "matcher")
        elif op == "=~" and key.span in nothing:
            message = f"'{key.value}' has no expression"
            fields.report.add(key.span, message, "for an absent label write ''", "matcher")
        else:
            yield from _pair(fields.report, key, value, op)


def _pair(report: Report, key: Scalar, value: Scalar, op: Operator) -> Iterator[Matcher]:
    try:
        found = Matcher(key.value, op, value.value)
    except PatternError as error:
        report.add(value.span, str(error), error.hint, "matcher")
        return
    # Alertmanager spells these with their anchors, also in the key of a group.
    anchored = f"^(?:{found.value})$" if op == "=~" else found.value
    yield Matcher(found.label, op, anchored)


def _within(report: Report, node: Scalar, start: int, end: int) -> Span:
    """Where a part of a scalar's value stands in the file."""
    offsets = node.offsets(report.source.text)
    first = offsets[min(start, len(offsets) - 1)]
    return Span(first, max(first + 1, offsets[min(max(start, end - 1), len(offsets) - 1)] + 1))


def label_names(fields: Fields, name: str) -> tuple[tuple[str, Node], ...]:
    """A list of labels with the place of each; what is none is reported."""
    found = []
    for node in fields.items(name):
        if isinstance(node, Scalar) and node.value and not node.null:
            found.append((node.value, node))
        else:
            fields.report.add(node.span, f"each of '{name}' is a label's name", code="route")
    return tuple(found)
