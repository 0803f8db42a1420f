"""Every function of windows against exact arithmetic, and the same bits however it is evaluated."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.labels import Labels
from engine.promql import grid as grid_module
from engine.promql import windows as windows_module
from engine.promql.functions import over_time, rates, trends
from engine.promql.windows import Kernel, Samples, Windows, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.series import Float64Array, Int64Array


@pytest.fixture(scope="module", autouse=True)
def _slots_on_short_axes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid_module, "FEWEST_STEPS", 64)
        yield


@dataclass(frozen=True)
class Case:
    """Series, and windows over them."""

    series: tuple[tuple[Int64Array, Float64Array], ...]
    ends: Int64Array
    range_ms: int

    def folded(
        self, kernel: Kernel, params: tuple[float, ...] = (), steps: slice = slice(None)
    ) -> tuple[Float64Array, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
        """Values and presence, [series, step]."""
        labels = tuple(Labels.of(row=str(row)) for row in range(len(self.series)))
        shared: dict[bytes, list[int]] = {}
        for row, (times, _) in enumerate(self.series):
            shared.setdefault(times.tobytes(), []).append(row)
        groups = tuple(
            Samples(
                np.array(rows), self.series[rows[0]][0], np.stack([self.series[r][1] for r in rows])
            )
            for rows in shared.values()
        )
        ends = self.ends[steps]
        windows = Windows(labels, (False,) * len(labels), groups, ends, ends, self.range_ms)
        with np.errstate(all="ignore"):
            values, present = fold(
                windows, kernel, tuple(np.full(ends.size, param) for param in params)
            )
        return np.where(present, values, 0.0), present


def case(seed: int, kind: str, *, counters: bool = False) -> Case:
    """Three series: two with equal times, one with its own; gaps, resets, jitter."""
    random = np.random.default_rng(seed)
    step = int(random.choice([10_000, 5_000, 20_000, 30_000, 7_000]))
    range_ms = int(
        random.choice([1, 5_000, 60_000, 100_000, 140_000, 300_000, 1_500_000, 3_600_000, 777_777])
    )
    count = int(random.integers(1, 160))
    grid = 1_700_000_000_000 + np.arange(count) * 10_000
    jittered = grid + random.integers(-6_000, 6_001, count)
    jittered = np.unique(jittered)[random.random(np.unique(jittered).size) > 0.1]
    kept = random.random(count) > random.choice([0.0, 0.02, 0.3])
    series = []
    for times in (grid[kept], grid[kept], jittered):
        values = _values(random, kind, times.size)
        if counters:
            values = np.cumsum(np.abs(np.nan_to_num(values, posinf=1.0, neginf=1.0)))
            for place in random.integers(0, max(1, times.size), 2):
                values[place:] -= values[place] if times.size else 0.0
        series.append((times, values))
    start = 1_700_000_000_000 + int(random.integers(-100_000, 100_000))
    if random.random() < 0.5:
        # Cuts at edges of windows, and samples of most steps in the middle of them.
        start -= start % step
        series = [(times - times % step + step // 2 - times % 7, v) for times, v in series]
        series = [(times[new], v[new]) for times, v in series for new in [_new(times)]]
    ends = start + np.arange(int(random.choice([1, 3, 90, 200]))) * step
    if random.random() < 0.2:
        ends = np.sort(random.integers(start, start + 2_000_000, ends.size))
    return Case(tuple(series), ends, range_ms)


def _new(times: Int64Array) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which samples are later than the one before."""
    return np.diff(times, prepend=0) > 0


def _values(random: np.random.Generator, kind: str, count: int) -> Float64Array:
    values = random.normal(50.0, 10.0, count)
    if kind == "plain":
        values = np.round(values, 2)
    elif kind == "few":
        values = random.choice([0.0, 1.0, 1.0, 2.0, -0.0, -1.0], count)
    elif kind == "level":
        values = 1e15 + np.round(values)
    elif kind == "spikes":
        values[random.random(count) < 0.05] *= 1e9
    elif kind == "signs":
        values = values * random.choice([1.0, -1.0], count) * 10.0 ** random.integers(-8, 9, count)
    elif kind == "wild":
        odd = [math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, -0.0, 1e-310]
        chosen = random.random(count) < random.choice([0.02, 0.2])
        values[chosen] = random.choice(odd, int(chosen.sum()))
    return values


KERNELS: dict[str, tuple[Kernel, tuple[float, ...]]] = {
    "rate": (rates.rate, ()),
    "increase": (rates.increase, ()),
    "delta": (rates.delta, ()),
    "irate": (rates.irate, ()),
    "idelta": (rates.idelta, ()),
    "changes": (rates.changes, ()),
    "resets": (rates.resets, ()),
    "deriv": (trends.deriv, ()),
    "predict_linear": (trends.predict_linear, (600.0,)),
    "double_exponential_smoothing": (trends.double_exponential_smoothing, (0.3, 0.6)),
    "sum_over_time": (over_time.sum_over_time, ()),
    "avg_over_time": (over_time.avg_over_time, ()),
    "min_over_time": (over_time.min_over_time, ()),
    "max_over_time": (over_time.max_over_time, ()),
    "count_over_time": (over_time.count_over_time, ()),
    "first_over_time": (over_time.first_over_time, ()),
    "last_over_time": (over_time.last_over_time, ()),
    "stddev_over_time": (over_time.stddev_over_time, ()),
    "stdvar_over_time": (over_time.stdvar_over_time, ()),
    "median": (over_time.quantile_over_time, (0.5,)),
    "high quantile": (over_time.quantile_over_time, (0.99,)),
    "mad_over_time": (over_time.mad_over_time, ()),
    "ts_of_max_over_time": (over_time.ts_of_max_over_time, ()),
}
KINDS = ["plain", "few", "level", "spikes", "signs", "wild"]


@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS))
def test_a_window_has_the_same_bits_alone_and_on_any_axis(name: str, seed: int, kind: str) -> None:
    kernel, params = KERNELS[name]
    whole = case(seed, kind, counters=name in {"rate", "increase"} and kind != "wild")
    values, present = whole.folded(kernel, params)
    random = np.random.default_rng(seed)
    for step in random.integers(0, whole.ends.size, 4).tolist():
        for row, (times, samples) in enumerate(whole.series):
            # As live: one step, one series, no sample but those of the window.
            end = int(whole.ends[step])
            seen = (times > end - whole.range_ms) & (times <= end)
            alone = Case(((times[seen], samples[seen]),), whole.ends, whole.range_ms)
            value, here = alone.folded(kernel, params, slice(step, step + 1))
            assert here[0, 0] == present[row, step]
            assert value.tobytes() == values[row, step : step + 1].tobytes() or (
                np.isnan(value[0, 0]) and np.isnan(values[row, step])
            )
    half = whole.ends.size // 2
    later, _ = whole.folded(kernel, params, slice(half, None))
    assert np.array_equal(later, values[:, half:], equal_nan=True)


@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS))
def test_slots_give_the_same_bits_as_numbers_of_samples(name: str, seed: int, kind: str) -> None:
    kernel, params = KERNELS[name]
    random = np.random.default_rng(seed)
    count = int(random.integers(100, 400))
    grid = 1_700_000_000_000 + np.arange(count) * 10_000
    series = []
    for share, jitter in ((0.0, 0), (0.03, 0), (0.0, 4_999), (0.03, 4_999), (0.03, 6_000)):
        times = grid + 5_000 + random.integers(-jitter, jitter + 1, count)
        edge = np.flatnonzero(random.random(count) < share / 2)
        gone = np.isin(
            np.arange(count),
            np.concatenate([np.arange(e, e + random.integers(1, 60)) for e in [-9, *edge]]),
        )
        times, kept = np.unique(times, return_index=True)
        values = _values(random, kind, count)
        if name in {"rate", "increase"} and kind != "wild":
            values = np.cumsum(np.abs(values)) % 3_000
        for _ in range(1 + int(jitter == 0)):
            series.append((times[~gone[kept]], values[kept][~gone[kept]]))
            values = values[::-1].copy()
    step = int(random.choice([10_000, 20_000, 30_000]))
    ends = (
        grid[0] - grid[0] % 60_000 + int(random.integers(-50, 50)) * 60_000 + np.arange(200) * step
    )
    range_ms = int(random.choice([60_000, 300_000, 600_000, 1_500_000, 3_600_000]))
    whole = Case(tuple(series), ends, range_ms)
    values, present = whole.folded(kernel, params)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid_module, "FEWEST_STEPS", 10_000)
        others, too = whole.folded(kernel, params)
    assert np.array_equal(present, too)
    assert np.array_equal(values, others, equal_nan=True)
    assert np.array_equal(np.signbit(values), np.signbit(others))


def test_a_block_of_any_height_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [
        case(seed, kind) for seed, kind in zip(range(12), itertools.cycle(KINDS), strict=False)
    ]
    for kernel, params in KERNELS.values():
        usual = [one.folded(kernel, params)[0] for one in cases]
        with monkeypatch.context() as patch:
            patch.setattr(windows_module, "BLOCK_CELLS", 1)
            single = [one.folded(kernel, params)[0] for one in cases]
        for one, other in zip(usual, single, strict=True):
            assert np.array_equal(one, other, equal_nan=True)


def exact(values: list[Fraction]) -> Fraction:
    return sum(values, Fraction(0))


def exact_sum(_times: list[int], values: list[Fraction]) -> Fraction:
    return exact(values)


def exact_mean(_times: list[int], values: list[Fraction]) -> Fraction:
    return exact(values) / len(values)


def exact_variance(_times: list[int], values: list[Fraction]) -> Fraction:
    mean = exact(values) / len(values)
    return exact([(value - mean) ** 2 for value in values]) / len(values)


def exact_slope(times: list[int], values: list[Fraction]) -> Fraction:
    if len(values) < 2:
        return Fraction(0)
    middle, mean = Fraction(sum(times), len(times)), exact(values) / len(values)
    pairs = list(zip(times, values, strict=True))
    rise = exact([(time - middle) * (value - mean) for time, value in pairs])
    return 1000 * rise / exact([(time - middle) ** 2 for time in times])


def magnitude_sum(_times: list[int], values: list[Fraction]) -> Fraction:
    return exact([abs(value) for value in values])


def magnitude_slope(times: list[int], values: list[Fraction]) -> Fraction:
    if len(values) < 2:
        return Fraction(0)
    middle, mean = Fraction(sum(times), len(times)), exact(values) / len(values)
    pairs = list(zip(times, values, strict=True))
    rise = exact([abs((time - middle) * (value - mean)) for time, value in pairs])
    return 1000 * rise / exact([(time - middle) ** 2 for time in times])


EXACT = {
    "sum_over_time": (over_time.sum_over_time, exact_sum, magnitude_sum, 1e-28),
    "avg_over_time": (over_time.avg_over_time, exact_mean, magnitude_sum, 1e-28),
    "stdvar_over_time": (over_time.stdvar_over_time, exact_variance, exact_variance, 1e-12),
    # A slope near 0 is as exact as what it is the sum of.
    "deriv": (trends.deriv, exact_slope, magnitude_slope, 1e-12),
}


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["plain", "few", "level", "spikes", "signs"]),
)
def test_moments_are_those_of_exact_arithmetic(name: str, seed: int, kind: str) -> None:
    kernel, reference, magnitude, share = EXACT[name]
    whole = case(seed, kind)
    values, present = whole.folded(kernel)
    random = np.random.default_rng(seed)
    for step in random.integers(0, whole.ends.size, 5).tolist():
        end = int(whole.ends[step])
        for row, (times, samples) in enumerate(whole.series):
            seen = (times > end - whole.range_ms) & (times <= end)
            if not present[row, step]:
                continue
            window = [Fraction(value) for value in samples[seen].tolist()]
            when = times[seen].tolist()
            wanted = reference(when, window)
            allowed = abs(wanted) * Fraction(1e-12) + magnitude(when, window) * Fraction(share)
            assert abs(Fraction(float(values[row, step])) - wanted) <= allowed


def quantile(phi: float, window: list[float]) -> float:
    ordered = sorted(window, key=lambda value: (not math.isnan(value), value))
    position = phi * (len(ordered) - 1)
    lower = math.floor(position)
    upper = min(lower + 1, len(ordered) - 1)
    weight = position - lower
    return ordered[lower] * (1 - weight) + ordered[upper] * weight


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    phi=st.sampled_from([0.0, 0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0]),
)
def test_quantiles_are_those_of_sorted_windows(seed: int, kind: str, phi: float) -> None:
    whole = case(seed, kind)
    values, present = whole.folded(over_time.quantile_over_time, (phi,))
    for step in range(whole.ends.size):
        end = int(whole.ends[step])
        for row, (times, samples) in enumerate(whole.series):
            window = samples[(times > end - whole.range_ms) & (times <= end)].tolist()
            assert present[row, step] == bool(window)
            if window:
                wanted, got = quantile(phi, window), float(values[row, step])
                assert got == wanted or (math.isnan(got) and math.isnan(wanted))


@pytest.mark.parametrize(
    ("kernel", "pick"),
    [(over_time.max_over_time, max), (over_time.min_over_time, min)],
    ids=["max", "min"],
)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS))
def test_extremes_pass_over_nan(
    kernel: Kernel, pick: Callable[[list[float]], float], seed: int, kind: str
) -> None:
    whole = case(seed, kind)
    values, present = whole.folded(kernel)
    for step in range(whole.ends.size):
        end = int(whole.ends[step])
        for row, (times, samples) in enumerate(whole.series):
            window = samples[(times > end - whole.range_ms) & (times <= end)].tolist()
            assert present[row, step] == bool(window)
            numbers = [value for value in window if not math.isnan(value)]
            if numbers:
                assert values[row, step] == pick(numbers)
            elif window:
                assert math.isnan(values[row, step])


def test_a_counter_at_1e15_keeps_an_exact_rate_over_thirty_days() -> None:
    count = 30 * 1440
    times: Int64Array = 1_700_000_000_000 + np.arange(count, dtype=np.int64) * 60_000
    values: Float64Array = 1e15 + np.arange(count, dtype=np.float64) * 3.0
    values[count // 2 :] -= values[count // 2]
    ends = times[[count // 2 - 1, count - 1]]
    whole = Case(((times, values),), ends, 30 * 86_400_000)
    (rises,), _ = whole.folded(rates.increase)
    shorter = Case(((times, values),), ends, 3_600_000)
    (slow,), _ = shorter.folded(rates.rate)
    assert rises[1] == pytest.approx(1e15 - 1e15 + 3.0 * (count - 2), rel=1e-4)
    assert slow.tolist() == [0.05, 0.05]
