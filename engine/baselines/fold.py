"""One baseline: a model for each element of an expression, folded over the element's points.

What is known at a time depends on the points up to it and on nothing else: not on how often, by
whom and in which pieces it was asked for. An element without a point for longer than the time to
live begins anew. Over the bound of elements those go that had a point least recently, of equals
the first by labels; as if that were looked at after every time.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.baselines.alike import alike
from engine.baselines.anomaly.many import fold_many
from engine.baselines.anomaly.model import AnomalyModel, fold
from engine.baselines.points import LATE_MS, Points
from engine.baselines.trace import Trace
from engine.promql.forks import computed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.baselines.points import Key
    from engine.baselines.settings import BaselineSettings
    from engine.series import Float64Array, Int64Array

# Fewer points than these are folded sooner than a fork begins; a process gets so many parts.
FORK_POINTS = 20_000
PARTS = 4
# A model's state, the time and score of its last point, and times and scores of its points.
Folded: TypeAlias = "tuple[bytes, int, float, Int64Array, Float64Array]"
# So many elements, and so many times that they have in common, are folded faster together.
TOGETHER = 32


class Element:
    """The model of an element, with the time and the score of its last point."""

    __slots__ = ("last_ms", "model", "score")

    def __init__(self, model: AnomalyModel, last_ms: int, score: float) -> None:
        self.model, self.last_ms, self.score = model, last_ms, score

    def copy(self) -> Element:
        """One that goes on by itself."""
        return Element(AnomalyModel.from_state(self.model.state()), self.last_ms, self.score)


class Fold:
    """The models of an expression's elements, and the scores of the recent past.

    `folded_ms`: up to where all points have been taken, None before the first. `kept_ms`: scores
    are known for all times from here on. `evicted` counts elements that the bound cost.
    """

    def __init__(self, settings: BaselineSettings) -> None:
        self.settings = settings
        self.folded_ms: int | None = None
        self.kept_ms: int | None = None
        self.evicted = 0
        self.elements: dict[Key, Element] = {}
        # Elements that are gone, and up to where their points were taken before.
        self.gone: dict[Key, int] = {}
        self._traces: dict[Key, Trace] = {}

    def take(
        self, points: Iterable[Points], until_ms: int, keep_ms: int, processes: int = 1
    ) -> None:
        """Take all points up to a time; scores from `keep_ms` on are to be known.

        Points that were taken before may be among them. `processes`: the most, this one and forks
        of it, that share the work where there is much; no bit depends on them.
        """
        self.kept_ms = keep_ms if self.kept_ms is None else max(self.kept_ms, keep_ms)
        found = list(points)
        new = sum(1 for one in found if one.key not in self.elements)
        is_bounded = len(self.elements) + new <= self.settings.max_series
        if is_bounded:
            found = self._one_each(found)
        fresh = [
            later for one in found if len((later := one.after(self._taken_ms(one.key))).times_ms)
        ]
        if not is_bounded:
            self._take_by_time(fresh)
        elif processes > 1 and sum(len(one.times_ms) for one in fresh) >= FORK_POINTS:
            self._share_out(fresh, processes)
        else:
            self._extend_all(fresh)
        self.folded_ms = until_ms
        self._expire(until_ms)
        self._forget(until_ms)

    def scores(self, keys: Sequence[Key], times_ms: Int64Array) -> Float64Array:
        """The score of each element's last point at or before each time: float64[S, T].

        NaN where there is none, and while the model is not warm.
        """
        if len(times_ms) == 1:
            return self._latest(keys, int(times_ms[0]))
        found = np.full((len(keys), len(times_ms)), np.nan)
        for row, key in enumerate(keys):
            trace = self._traces.get(key)
            if trace is not None:
                found[row] = trace.at(times_ms)
        return found

    def _latest(self, keys: Sequence[Key], time_ms: int) -> Float64Array:
        traces = [self._traces.get(key) for key in keys]
        latest = [np.nan if trace is None else trace.latest(time_ms) for trace in traces]
        return np.array(latest, dtype=np.float64)[:, None]

    def ready(self) -> int:
        """How many elements have learnt enough to be scored."""
        return sum(1 for element in self.elements.values() if element.model.ready)

    def ready_ratio(self) -> float:
        """The share of elements that have, 0 where there is none."""
        return self.ready() / len(self.elements) if self.elements else 0.0

    def restore(self, folded_ms: int, elements: dict[Key, Element], gone: dict[Key, int]) -> None:
        """Go on from what was saved at a time."""
        self.folded_ms = self.kept_ms = folded_ms
        self.elements, self.gone = elements, gone
        self._traces = {}
        for key, element in elements.items():
            trace = self._traces[key] = Trace()
            trace.extend(np.array([element.last_ms]), np.array([element.score]), folded_ms)

    def copy(self) -> Fold:
        """One that goes on by itself."""
        other = Fold(self.settings)
        other.folded_ms, other.kept_ms = self.folded_ms, self.kept_ms
        other.elements = {key: one.copy() for key, one in self.elements.items()}
        other.gone = dict(self.gone)
        other._traces = {key: trace.copy() for key, trace in self._traces.items()}
        return other

    def _model(self) -> AnomalyModel:
        return AnomalyModel(self.settings.learning)

    @property
    def _keep_ms(self) -> int:
        return _NEVER if self.kept_ms is None else self.kept_ms

    def _taken_ms(self, key: Key) -> int:
        element = self.elements.get(key)
        return self.gone.get(key, _NEVER) if element is None else element.last_ms

    def _one_each(self, points: Iterable[Points]) -> list[Points]:
        """Take the points of known elements that have just one new; all others are given back.

        Nearly all that a live evaluation has: here it is worth to look no farther.
        """
        rest, elements, traces = [], self.elements, self._traces
        keep_ms, ttl_ms = self._keep_ms, self.settings.ttl_ms
        for one in points:
            times, element = one.times_ms, elements.get(one.key)
            count = len(times)
            if element is None or not count:
                rest.append(one)
                continue
            last_ms, time_ms = element.last_ms, int(times[-1])
            if time_ms <= last_ms:
                continue
            if (count > 1 and times[-2] > last_ms) or time_ms - last_ms > ttl_ms:
                rest.append(one)
                continue
            score = element.model.update(time_ms, float(one.values[-1]))
            element.last_ms, element.score = time_ms, score
            traces[one.key].append(time_ms, score, keep_ms)
        return rest

    def _extend_all(self, points: Sequence[Points]) -> None:
        """Fold later points of elements, those with the same times together where it pays."""
        for group in alike(points):
            if len(group) >= TOGETHER <= len(group[0].times_ms) and not self._has_gap(group):
                self._extend_together(group)
            else:
                for one in group:
                    self._extend(one)

    def _has_gap(self, points: Sequence[Points]) -> bool:
        """Whether an element of these, whose times are the same, is to begin anew in between."""
        times = points[0].times_ms
        known = [self.elements[one.key].last_ms for one in points if one.key in self.elements]
        before = min([*known, int(times[0])])
        return bool(np.diff(times, prepend=before).max() > self.settings.ttl_ms)

    def _extend_together(self, points: Sequence[Points]) -> None:
        times = points[0].times_ms
        elements = [self._element(one.key) for one in points]
        values = np.array([one.values for one in points])
        scores = fold_many([element.model for element in elements], times, values)
        for one, element, row in zip(points, elements, scores, strict=True):
            element.last_ms, element.score = int(times[-1]), float(row[-1])
            self._trace(one.key).extend(times, row, self._keep_ms)

    def _element(self, key: Key) -> Element:
        """The element, which begins if it is not there."""
        element = self.elements.get(key)
        if element is None:
            element = self.elements[key] = Element(self._model(), _NEVER, np.nan)
            self.gone.pop(key, None)
        return element

    def _extend(self, points: Points) -> None:
        """Fold later points of one element; it begins anew after a gap that is too long."""
        key, times, values = points.key, points.times_ms, points.values
        element = self.elements.get(key)
        before = times[0] if element is None else element.last_ms
        cuts = np.flatnonzero(np.diff(times, prepend=before) > self.settings.ttl_ms)
        for start, stop in zip([0, *cuts], [*cuts, len(times)], strict=True):
            if start in cuts and element is not None:
                self._end(key, element.last_ms + self.settings.ttl_ms + 1)
                element = None
            if start == stop:
                continue
            element = self._element(key)
            scores = fold(element.model, times[start:stop], values[start:stop])
            element.last_ms, element.score = int(times[stop - 1]), float(scores[-1])
            self._trace(key).extend(times[start:stop], scores, self._keep_ms)

    def _share_out(self, points: Sequence[Points], processes: int) -> None:
        """Fold elements in several processes: each depends on its own points only."""
        height = max(1, -(-len(points) // (PARTS * processes)))
        parts = [points[start : start + height] for start in range(0, len(points), height)]

        def one(number: int) -> list[Folded]:
            return self._apart(parts[number])

        owners = [number % processes for number in range(len(parts))]
        with closing(computed(one, owners)) as found:
            for part, outcomes in zip(parts, found, strict=True):
                for own, (state, last_ms, score, times, scores) in zip(part, outcomes, strict=True):
                    model = AnomalyModel.from_state(state)
                    self.elements[own.key] = Element(model, last_ms, score)
                    self.gone.pop(own.key, None)
                    self._trace(own.key).extend(times, scores, self._keep_ms)

    def _apart(self, points: Sequence[Points]) -> list[Folded]:
        """What becomes of elements, which stay as they are."""
        scratch = Fold(self.settings)
        for one in points:
            element = self.elements.get(one.key)
            if element is not None:
                scratch.elements[one.key] = element.copy()
        scratch._extend_all(points)
        return [scratch._folded(one.key) for one in points]

    def _folded(self, key: Key) -> Folded:
        element = self.elements[key]
        return element.model.state(), element.last_ms, element.score, *self._trace(key).content

    def _take_by_time(self, points: Sequence[Points]) -> None:
        """One time after another, as the bound is looked at after each."""
        by_time: dict[int, list[Points]] = {}
        for one in points:
            for place, time_ms in enumerate(one.times_ms.tolist()):
                here = slice(place, place + 1)
                single = Points(one.key, one.times_ms[here], one.values[here])
                by_time.setdefault(time_ms, []).append(single)
        for time_ms in sorted(by_time):
            for one in by_time[time_ms]:
                self._extend(one)
            if len(self.elements) > self.settings.max_series:
                self._expire(time_ms)
                self._evict(time_ms)

    def _evict(self, time_ms: int) -> None:
        over = len(self.elements) - self.settings.max_series
        if over <= 0:
            return
        oldest = sorted(self.elements, key=lambda key: (self.elements[key].last_ms, key))[:over]
        for key in oldest:
            self._end(key, time_ms)
            self.gone[key] = time_ms
        self.evicted += over

    def _expire(self, time_ms: int) -> None:
        ttl_ms = self.settings.ttl_ms
        for key, element in list(self.elements.items()):
            if time_ms - element.last_ms > ttl_ms:
                self._end(key, element.last_ms + ttl_ms + 1)

    def _end(self, key: Key, time_ms: int) -> None:
        """An element is not known any more from a time on."""
        element = self.elements.pop(key)
        self.gone[key] = element.last_ms
        # The score of a point of that very time goes, too.
        self._trace(key).end(time_ms, self._keep_ms)

    def _forget(self, until_ms: int) -> None:
        """What nobody can ask for any more."""
        horizon_ms = until_ms - LATE_MS
        for key in [key for key, last_ms in self.gone.items() if last_ms < horizon_ms]:
            del self.gone[key]
        for key in [key for key in self._traces if key not in self.elements]:
            if key not in self.gone and self._traces[key].last_ms < self._keep_ms:
                del self._traces[key]

    def _trace(self, key: Key) -> Trace:
        trace = self._traces.get(key)
        if trace is None:
            trace = self._traces[key] = Trace()
        return trace


_NEVER = -(1 << 62)
