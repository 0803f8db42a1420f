"""Which series a selector means: found by metric name, and remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.matching import Selection, matcher_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.series import Series
    from rules.promql.ast import Matcher

_REMEMBERED = 4096


class SeriesIndex:
    """Series that do not change, by name, and what selectors found among them."""

    def __init__(self) -> None:
        self._series: Sequence[Series] | None = None
        self._by_name: dict[str, list[Series]] = {}
        self._found: dict[object, list[Series]] = {}

    def matching(self, series: Sequence[Series], matchers: Sequence[Matcher]) -> list[Series]:
        """Those of `series`, which are the same at every call, that match, in their order."""
        if self._series is not series:
            by_name: dict[str, list[Series]] = {}
            for one in series:
                by_name.setdefault(one.labels.name, []).append(one)
            self._by_name, self._found, self._series = by_name, {}, series
        key = matcher_key(matchers)
        found = self._found.get(key)
        if found is None:
            selection = Selection(matchers)
            candidates = self._by_name.get(selection.name, ()) if selection.name else series
            found = [one for one in candidates if selection.accepts(one.labels)]
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            self._found[key] = found
        return found
