"""All baselines of one set of data, by what they are of: each is folded once, whoever asks.

Whoever asks for the past moves nothing: the answer comes from scores that are still known, else
from a fold of its own that begins at the last snapshot before.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from engine.baselines.fold import Fold
from engine.baselines.settings import BaselineSettings
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.baselines.points import Points

# As much is read and folded at a time while a fold catches up.
PIECE_MS = 8 * 3_600_000
# Scores of the recent past are kept so long: for graphs, templates and query offsets.
KEEP_MS = 15 * 60_000


class Clock(Protocol):
    """The points of an expression's elements."""

    def first_ms(self, until_ms: int) -> int | None:
        """Where the data begin, None if there are none up to a time."""
        ...

    def stretches(self, after_ms: int, until_ms: int) -> Iterable[tuple[int, int]]:
        """Where between them, after < time <= until, points can be: in order, each to be taken.

        What is left out has no point. A long stretch may come in pieces.
        """
        ...

    def points(self, after_ms: int, until_ms: int) -> Iterable[Points]:
        """All points with after < time <= until, and perhaps some that came late before them."""
        ...


class Saved(Protocol):
    """Snapshots of folds."""

    def load(self, text: str, until_ms: int, settings: BaselineSettings) -> Fold | None:
        """The fold of an expression as it was last saved at or before a time."""
        ...


@dataclass(slots=True, eq=False)
class Folds:
    """The folds of one set of data.

    `origin_ms`: where the data begin, if that is known; what is not saved is folded from there.
    `lasting`: the only expressions whose folds are kept, None for all that are asked for. `shared`:
    folds of another's that may be looked at, and are never moved from here.
    """

    settings: BaselineSettings = field(default_factory=BaselineSettings)
    origin_ms: int | None = None
    saved: Saved | None = None
    lasting: frozenset[str] | None = None
    shared: Folds | None = None
    by_text: dict[str, Fold] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def begin(self, text: str, first_ms: int) -> Fold:
        """The lasting fold of an expression, from the last snapshot before a time if it is new."""
        with self.lock:
            fold = self.by_text.get(text)
            if fold is None:
                fold = self.by_text[text] = self._begun(text, first_ms)
            return fold

    def only(self, texts: frozenset[str]) -> None:
        """Keep the folds of these expressions and forget all others."""
        with self.lock:
            self.lasting = texts
            for text in self.by_text.keys() - texts:
                del self.by_text[text]

    @contextmanager
    def followed(
        self, text: str, clock: Clock, first_ms: int, last_ms: int, processes: int = 1
    ) -> Iterator[Fold]:
        """The fold of an expression that knows its scores for first <= time <= last.

        `processes`: the most that may share the work.
        """
        if self.shared is not None:
            with self.shared.looked_at(text, first_ms, last_ms) as (fold, is_enough):
                if is_enough and fold is not None:
                    yield fold
                    return
            fold = self._begun(text, first_ms) if fold is None else fold
            self._advance(fold, clock, first_ms, last_ms, processes)
            yield fold
            return
        with self.lock:
            fold = self.by_text.get(text)
            if fold is None:
                fold = self._begun(text, first_ms)
                if self.lasting is None or text in self.lasting:
                    self.by_text[text] = fold
            elif not _knows(fold, first_ms):
                fold = self._begun(text, first_ms)
            self._advance(fold, clock, first_ms, last_ms, processes)
            yield fold

    def reading(self) -> Folds:
        """The same for who only looks: nothing that they ask for moves a fold."""
        return Folds(self.settings, self.origin_ms, self.saved, shared=self)

    def apart(self, text: str, time_ms: int) -> Folds:
        """Folds of their own, to take that of an expression to a time and look at its models.

        It goes on from what is known here if that is not beyond the time, else from a snapshot.
        """
        apart = Folds(self.settings, self.origin_ms, self.saved)
        with self.lock:
            fold = self.by_text.get(text)
            if fold is not None and fold.folded_ms is not None and fold.folded_ms <= time_ms:
                apart.by_text[text] = fold.copy()
        return apart

    @contextmanager
    def looked_at(
        self, text: str, first_ms: int, last_ms: int
    ) -> Iterator[tuple[Fold | None, bool]]:
        """A fold to be read and not moved, and True; or a copy that is to go on, and False."""
        with self.lock:
            fold = self.by_text.get(text)
            if fold is None or not _knows(fold, first_ms):
                yield None, False
            elif fold.folded_ms is not None and last_ms <= fold.folded_ms:
                yield fold, True
            else:
                yield fold.copy(), False

    def _begun(self, text: str, first_ms: int) -> Fold:
        found = None
        if self.saved is not None:
            found = self.saved.load(text, first_ms, self.settings)
        return Fold(self.settings) if found is None else found

    def _advance(
        self, fold: Fold, clock: Clock, first_ms: int, last_ms: int, processes: int
    ) -> None:
        after_ms = fold.folded_ms
        if after_ms is None:
            first = clock.first_ms(last_ms) if self.origin_ms is None else self.origin_ms
            if first is None:
                return
            after_ms = min(first, first_ms) - 1
        if after_ms >= last_ms:
            return
        for start_ms, end_ms in clock.stretches(after_ms, last_ms):
            after_ms = start_ms
            while after_ms < end_ms:
                until_ms = end_ms
                if end_ms - after_ms > PIECE_MS and after_ms < first_ms - 1:
                    until_ms = min(after_ms + PIECE_MS, first_ms - 1, end_ms)
                points = clock.points(after_ms, until_ms)
                fold.take(points, until_ms, min(first_ms, until_ms) - KEEP_MS, processes)
                after_ms = until_ms
        if fold.folded_ms != last_ms:
            # Nothing more came: elements end by then, and what nobody can ask for is forgotten.
            fold.take((), last_ms, first_ms - KEEP_MS, processes)


def _knows(fold: Fold, first_ms: int) -> bool:
    return fold.kept_ms is None or fold.kept_ms <= first_ms
