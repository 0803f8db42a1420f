"""Silences that name no value outright: by one matcher each, tried once for a label's value.

Many alerts share the few values that a label takes on a node, so a matcher is asked about a value
and not about an alert. Regular expressions are asked in bunches: one alternation of them says of
most values that none matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rules.promql.regex import PatternError, compile_search

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.alerts.matchers import Matcher
    from notifiers.silences.silence import Silence

BUNCH = 32
# Values of labels whose silences are remembered.
REMEMBERED = 100_000


class Gates:
    """Finds the silences whose gate, one of their matchers, holds. Safe for several threads."""

    def __init__(self, silences: Sequence[Silence]) -> None:
        by_label: dict[str, list[tuple[Matcher, Silence]]] = {}
        for one in silences:
            gate = _gate(one)
            by_label.setdefault(gate.label, []).append((gate, one))
        self._bunches = {label: list(_bunches(gated)) for label, gated in by_label.items()}
        self._open: dict[tuple[str, str], tuple[Silence, ...]] = {}

    def open_to(self, labels: Mapping[str, str]) -> Iterator[Silence]:
        """Each silence whose gate holds for these labels; its other matchers may not."""
        for label, bunches in self._bunches.items():
            value = labels.get(label, "")
            found = self._open.get((label, value))
            if found is None:
                found = tuple(one for bunch in bunches for one in bunch.open_to(label, value))
                if len(self._open) >= REMEMBERED:
                    self._open.clear()
                self._open[label, value] = found
            yield from found


class _Bunch:
    """Gates on one label; `any_of` is their alternation, None where each has to be asked."""

    def __init__(self, gated: Sequence[tuple[Matcher, Silence]], any_of: Any) -> None:
        self._gated = gated
        self._any_of = any_of

    def open_to(self, label: str, value: str) -> Iterator[Silence]:
        if self._any_of is not None and self._any_of.fullmatch(value) is None:
            return
        for gate, silence in self._gated:
            if gate.matches({label: value}):
                yield silence


def _bunches(gated: Sequence[tuple[Matcher, Silence]]) -> Iterator[_Bunch]:
    expressions = [pair for pair in gated if _can_stand_among_others(pair[0])]
    others = [pair for pair in gated if not _can_stand_among_others(pair[0])]
    for start in range(0, len(expressions), BUNCH):
        bunch = expressions[start : start + BUNCH]
        yield _Bunch(bunch, _alternation([gate.value for gate, _ in bunch]))
    if others:
        yield _Bunch(others, None)


def _can_stand_among_others(gate: Matcher) -> bool:
    # What follows \Q is literal to the end of the text, a bracket that closes a group too.
    return gate.op == "=~" and "\\Q" not in gate.value


def _alternation(patterns: Sequence[str]) -> Any:
    try:
        return compile_search("|".join(f"(?:{pattern})" for pattern in patterns))
    except PatternError:  # together they are too large, or name a group twice
        return None


def _gate(silence: Silence) -> Matcher:
    """The matcher that likely lets the fewest alerts through: one that asks for something."""
    for matcher in silence.matchers:
        if matcher.op == "=~" and not matcher.matches({}):
            return matcher
    return silence.matchers[0]
