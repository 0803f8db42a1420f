"""Random series and expressions that mean the same in Prometheus 2 and 3.

No sample lies on a window's edge (Prometheus 2 closes the left one): samples are at .5 s and
later of their second, queries at .377 s, subqueries step on whole seconds. Counters stay far from
zero, also by what a reset adds: near it the two extend a rate differently. Left out is what chance
decides among equal elements, and what rounding decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.labels import Labels
from engine.series import Series

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

SAMPLES = 360
SPACING_MS = 10_000
RANGES = ("25s", "30s", "1m", "90s", "5m", "10m")
GROUPINGS = ("", " by (job)", " without (inst)", " by (job, inst)")
COUNTERS = ("c_total", "jittered_total")
NAMES = (*COUNTERS, "g", "g", "h")


def series(random: random.Random, start_ms: int) -> tuple[Series, ...]:
    """An hour of counters with resets, gauges with NaN and infinity, buckets; with gaps."""
    found = []
    for job in "ab":
        for inst in "012":
            level, counter = 1e12, []
            resets = set(random.sample(range(SAMPLES), 3))
            for number in range(SAMPLES):
                level += random.choice((0, 0, 1, 2, 0.5, 100))
                level = level // 100 if number in resets else level
                counter.append(level)
            gauge = [random.gauss(10, 3) for _ in range(SAMPLES)]
            if inst == "2":
                for odd in (math.nan, math.inf, -math.inf):
                    gauge[random.randrange(SAMPLES)] = odd
            whole = [float(random.randrange(-3, 4)) for _ in range(SAMPLES)]
            kinds = (("c_total", counter), ("jittered_total", counter), ("g", gauge), ("h", whole))
            for name, values in kinds:
                labels = Labels.of(__name__=name, job=job, inst=inst)
                found.append(_sampled(random, labels, values, start_ms))
        info = Labels.of(__name__="info", job=job, team=random.choice("pq"))
        found.append(_sampled(random, info, [1.0] * SAMPLES, start_ms))
    return tuple(sorted(found, key=lambda one: one.labels))


def _sampled(random: random.Random, labels: Labels, values: list[float], start_ms: int) -> Series:
    kept: list[tuple[int, float]] = []
    gap = 0
    for number, value in enumerate(values):
        gap = random.choice((1, 2, 5, 40)) if random.random() < 0.02 else gap - 1
        if gap > 0 and labels.name != "info":
            continue
        shift = 1623
        if labels.name == "jittered_total":
            shift = random.randrange(9) * 1000 + random.randrange(500, 1000)
        kept.append((start_ms + number * SPACING_MS + shift, value))
    times, numbers = zip(*kept, strict=True)
    return Series(labels, np.array(times, dtype=np.int64), np.array(numbers, dtype=np.float64))


def exposition(found: Iterable[Series]) -> str:
    """The series as OpenMetrics text."""
    lines: list[str] = []
    family = ""
    for one in found:
        if one.labels.name != family:
            family = one.labels.name
            lines.append(f"# TYPE {family} unknown")
        for time, value in zip(one.timestamps_ms.tolist(), one.values.tolist(), strict=True):
            text = repr(value).replace("nan", "NaN").replace("inf", "Inf")
            lines.append(f"{one.labels.spelled(',')} {text} {time // 1000}.{time % 1000:03d}")
    return "\n".join([*lines, "# EOF", ""])


@dataclass
class Grammar:
    """Random expressions. `instant_s`: some time within the data."""

    random: random.Random
    instant_s: int
    _inside: bool = False

    def vector(self, depth: int) -> str:
        """An instant vector."""
        if depth <= 0:
            return self.selector() + self.modifiers()
        forms = (
            self._windowed, self._windowed, self._aggregated, self._mapped, self._compared,
            self._matched, self._combined,
        )  # fmt: skip
        return self.random.choice(forms)(depth)

    def selector(self, names: tuple[str, ...] = NAMES) -> str:
        """A selector without modifiers."""
        matchers = ("", "", '{job="a"}', '{inst=~"0|1"}', '{inst!="2",job="b"}')
        return self.random.choice(names) + self.random.choice(matchers)

    def modifiers(self) -> str:
        """Mostly none."""
        fixed = f" @ {self.instant_s + self.random.randrange(3600)}.377"
        offsets = (" offset 10s", " offset 7m", " offset -20s")
        return self.random.choice(("",) * 8 + (fixed, self.random.choice(offsets)))

    def _range(self, depth: int) -> str:
        # Within a subquery another one's steps would lie on its edges.
        if self._inside or self.random.random() < 0.75:
            return f"{self.selector()}[{self.random.choice(RANGES)}]{self.modifiers()}"
        self._inside = True
        inner = self.vector(depth - 1)
        self._inside = False
        width, step = self.random.choice(("2m", "5m", "10m")), self.random.choice(("10s", "30s"))
        return f"({inner})[{width}:{step}]{self.modifiers()}"

    def _windowed(self, depth: int) -> str:
        choice = self.random.choice
        if self.random.random() < 0.3:
            window = f"{self.selector(COUNTERS)}[{choice(('1m', '90s', '5m', '10m'))}]"
            return f"{choice(('rate', 'increase', 'irate'))}({window}{self.modifiers()})"
        name = choice(
            ("delta", "idelta", "changes", "resets", "min_over_time", "max_over_time",
             "sum_over_time", "avg_over_time", "count_over_time", "last_over_time",
             "stddev_over_time", "absent_over_time", "quantile_over_time", "predict_linear")
        )  # fmt: skip
        if name == "stddev_over_time":
            return f"{name}({self.selector(('g', 'h'))}[{choice(RANGES)}]{self.modifiers()})"
        if name == "quantile_over_time":
            return f"{name}({choice(('0', '0.5', '0.9', '1', '-1'))}, {self._range(depth)})"
        if name == "predict_linear":
            return f"{name}({self.selector(('g',))}[{choice(RANGES)}], 60)"
        return f"{name}({self._range(depth)})"

    def _aggregated(self, depth: int) -> str:
        choice = self.random.choice
        grouping, inner = choice(GROUPINGS), self.vector(depth - 1)
        if self.random.random() < 0.2:
            return f"quantile{grouping} ({choice(('0.3', '0.9', '5'))}, {inner})"
        return f"{choice(('sum', 'avg', 'min', 'max', 'count', 'group'))}{grouping} ({inner})"

    def _mapped(self, depth: int) -> str:
        name = self.random.choice(
            ("abs", "sgn", "sqrt", "exp", "atan", "timestamp", "-", "absent", "clamp_min",
             "label_replace")
        )  # fmt: skip
        inner = self.vector(depth - 1)
        if name == "clamp_min":
            return f"clamp_min({inner}, 2)"
        if name == "label_replace":
            return f'label_replace({inner}, "n", "$1x", "inst", "(.*)")'
        return f"{name}({inner})"

    def _compared(self, depth: int) -> str:
        operator = self.random.choice(
            ("+", "-", "*", "/", "^", ">", "<=", "==", "!=", "> bool", "== bool")
        )
        number = self.random.choice(("0", "1", "-2", "0.5", "1e3", "time()", 'scalar(h{job="a"})'))
        sides = [f"({self.vector(depth - 1)})", number]
        self.random.shuffle(sides)
        return f"{sides[0]} {operator} {sides[1]}"

    def _matched(self, depth: int) -> str:
        operator = self.random.choice(("+", "-", "*", "/", ">", "<=", "== bool"))
        if self.random.random() < 0.3:
            return f"({self.vector(depth - 1)}) {operator} on (job) group_left (team) (info)"
        matching = self.random.choice(("", " on (job, inst)", " on (job, inst) group_right ()"))
        return f"({self.vector(depth - 1)}) {operator}{matching} ({self.vector(depth - 1)})"

    def _combined(self, depth: int) -> str:
        operator = self.random.choice(("and", "or", "unless"))
        matching = self.random.choice(("", " on (job)", " ignoring (inst)"))
        return f"({self.vector(depth - 1)}) {operator}{matching} ({self.vector(depth - 1)})"
