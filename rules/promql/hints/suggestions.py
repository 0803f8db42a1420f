"""Did you mean: the nearest known word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.promql.functions import AGGREGATORS, FUNCTIONS, OTHER_NAMES
from rules.promql.tokens import GROUPING_WORDS, KEYWORDS

if TYPE_CHECKING:
    from collections.abc import Iterable

# Longer words are not looked at: nearness costs the product of the lengths.
_LONGEST = 40


def nearest(word: str, known: Iterable[str], cutoff: float = 0.7) -> str | None:
    """The known word most like this one, in any case, or None."""
    lower = word.lower()
    words = sorted(known)
    if lower in words:
        return lower
    if len(word) > _LONGEST:
        return None
    # Same letters in another order (`raet`) is the commonest slip, and difflib rates it low.
    for candidate in words:
        if len(candidate) > 2 and sorted(candidate) == sorted(lower):
            return candidate
    from difflib import get_close_matches

    found = get_close_matches(lower, words, n=1, cutoff=cutoff)
    return found[0] if found else None


def function(name: str) -> str:
    """What to write for a function that there is not, "" if nothing comes near."""
    other = OTHER_NAMES.get(name.lower())
    if other is not None:
        return other
    aggregator, _, rest = name.lower().partition("_")
    if aggregator in AGGREGATORS and rest in GROUPING_WORDS:
        return f"write {aggregator} {rest} (label) (x)"
    found = nearest(name, [*FUNCTIONS, *AGGREGATORS])
    return f"did you mean {found}?" if found else ""


def keyword(word: str, known: Iterable[str] = KEYWORDS) -> str | None:
    """A keyword with a similar name."""
    return nearest(word, known, cutoff=0.75) if len(word) > 1 else None
