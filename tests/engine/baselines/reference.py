"""The fold of a baseline as its definition reads: all points of all elements, time after time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.baselines.anomaly.model import AnomalyModel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.baselines.points import Key
    from engine.baselines.settings import BaselineSettings


@dataclass
class SlowFold:
    """What is known at a time depends on the points up to it, each looked at by itself."""

    settings: BaselineSettings
    models: dict[Key, AnomalyModel] = field(default_factory=dict)
    last_ms: dict[Key, int] = field(default_factory=dict)
    scores: dict[Key, float] = field(default_factory=dict)
    evicted: int = 0

    def at(
        self, points: Mapping[Key, Mapping[int, float]], times_ms: Sequence[int]
    ) -> dict[Key, list[float]]:
        """The scores of all elements at each time, NaN where there is none."""
        found: dict[Key, list[float]] = {key: [] for key in points}
        every = sorted({time for own in points.values() for time in own})
        for until_ms in times_ms:
            while every and every[0] <= until_ms:
                self._take(every.pop(0), points)
            self._expire(until_ms)
            for key, own in found.items():
                own.append(self.scores.get(key, math.nan))
        return found

    def _take(self, time_ms: int, points: Mapping[Key, Mapping[int, float]]) -> None:
        self._expire(time_ms)
        for key, own in points.items():
            if time_ms in own:
                model = self.models.setdefault(key, AnomalyModel())
                self.scores[key] = model.update(time_ms, own[time_ms])
                self.last_ms[key] = time_ms
        while len(self.models) > self.settings.max_series:
            self._forget(min(self.models, key=lambda key: (self.last_ms[key], key)))
            self.evicted += 1

    def _expire(self, time_ms: int) -> None:
        for key in list(self.models):
            if time_ms - self.last_ms[key] > self.settings.ttl_ms:
                self._forget(key)

    def _forget(self, key: Key) -> None:
        del self.models[key], self.last_ms[key], self.scores[key]
