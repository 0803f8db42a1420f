"""Label matchers compiled: does a label set satisfy all of them?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.labels import METRIC_NAME
from rules.promql.regex import compile_matcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from engine.labels import Labels
    from rules.promql.ast import Matcher


def _predicate(matcher: Matcher) -> Callable[[str], bool]:
    expected = matcher.value
    if matcher.op == "=":
        return expected.__eq__
    if matcher.op == "!=":
        return expected.__ne__
    matches = compile_matcher(expected)
    if matcher.op == "=~":
        return matches
    return lambda value: not matches(value)


class Selection:
    """Matchers ready to be asked. A label that is absent has the value ""."""

    __slots__ = ("_predicates", "name")

    def __init__(self, matchers: Iterable[Matcher]) -> None:
        self.name = ""
        self._predicates: list[tuple[str, Callable[[str], bool]]] = []
        for matcher in matchers:
            if matcher.label == METRIC_NAME and matcher.op == "=" and matcher.value:
                self.name = matcher.value
            self._predicates.append((matcher.label, _predicate(matcher)))

    def accepts(self, labels: Labels) -> bool:
        """True if every matcher holds."""
        return all(holds(labels.get(label)) for label, holds in self._predicates)


def matcher_key(matchers: Sequence[Matcher]) -> tuple[tuple[str, str, str], ...]:
    """What makes two matcher lists the same question, wherever they are written."""
    return tuple((matcher.label, matcher.op, matcher.value) for matcher in matchers)
