"""Every function of Prometheus 3 by its signature, our own ones, and the aggregation operators.

A row here is all that the parser and the type check know of a function; the evaluator keeps its
kernels by the same names.
"""

from __future__ import annotations

from typing import Final

from rules.promql.ast import ValueType
from rules.slotted import dataclass

_S = ValueType.SCALAR
_V = ValueType.VECTOR
_M = ValueType.MATRIX
_T = ValueType.STRING


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes and gives.

    `variadic` as in Prometheus: 0, exactly `args`; n > 0, the last of `args` may be given from 0
    to n times; -1, any number of times. `experimental` functions need a feature flag there.
    `native_histograms`: reads native histograms only, so float samples give nothing. `ours`:
    Prometheus does not have it.
    """

    name: str
    args: tuple[ValueType, ...]
    returns: ValueType = _V
    variadic: int = 0
    experimental: bool = False
    native_histograms: bool = False
    ours: bool = False

    @property
    def least(self) -> int:
        """The fewest arguments it takes."""
        return len(self.args) - (1 if self.variadic else 0)

    @property
    def most(self) -> int | None:
        """The most arguments it takes, None without bound."""
        return None if self.variadic < 0 else self.least + self.variadic

    def arg(self, index: int) -> ValueType:
        """The type of argument `index`, counted from 0; the last one repeats."""
        return self.args[min(index, len(self.args) - 1)]


def _table(*rows: Signature) -> dict[str, Signature]:
    return {row.name: row for row in rows}


def _each(names: str, *args: ValueType, variadic: int = 0) -> tuple[Signature, ...]:
    return tuple(Signature(name, args, variadic=variadic) for name in names.split())


def _ours(names: str, *args: ValueType) -> tuple[Signature, ...]:
    return tuple(Signature(name, args, ours=True) for name in names.split())


_MATH = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh deg exp floor ln log10 log2 rad sgn sin"
    " sinh sqrt tan tanh"
)
_COUNTER = "changes delta deriv idelta increase irate rate resets"
_OVER_TIME = "absent avg count last max min present stddev stdvar sum"
_DATE = "day_of_month day_of_week day_of_year days_in_month hour minute month year"
_NATIVE = "histogram_avg histogram_count histogram_stddev histogram_stdvar histogram_sum"

FUNCTIONS: Final[dict[str, Signature]] = _table(
    *_each(_MATH, _V),
    *_each("absent sort sort_desc timestamp", _V),
    *_each("clamp_max clamp_min", _V, _S),
    *_each("clamp", _V, _S, _S),
    *_each("round", _V, _S, variadic=1),
    *_each(_DATE, _V, variadic=1),
    *_each(_COUNTER, _M),
    *_each(" ".join(f"{name}_over_time" for name in _OVER_TIME.split()), _M),
    *_each("quantile_over_time", _S, _M),
    *_each("predict_linear", _M, _S),
    *_each("histogram_quantile", _S, _V),
    *_each("histogram_fraction", _S, _S, _V),
    *_each("label_replace", _V, _T, _T, _T, _T),
    *_each("label_join", _V, _T, _T, _T, variadic=-1),
    *_each("vector", _S),
    Signature("pi", (), _S),
    Signature("time", (), _S),
    Signature("scalar", (_V,), _S),
    *(Signature(name, (_V,), native_histograms=True) for name in _NATIVE.split()),
    # Behind --enable-feature=promql-experimental-functions.
    Signature("first_over_time", (_M,), experimental=True),
    Signature("mad_over_time", (_M,), experimental=True),
    Signature("ts_of_first_over_time", (_M,), experimental=True),
    Signature("ts_of_last_over_time", (_M,), experimental=True),
    Signature("ts_of_max_over_time", (_M,), experimental=True),
    Signature("ts_of_min_over_time", (_M,), experimental=True),
    Signature("sort_by_label", (_V, _T), variadic=-1, experimental=True),
    Signature("sort_by_label_desc", (_V, _T), variadic=-1, experimental=True),
    Signature("double_exponential_smoothing", (_M, _S, _S), experimental=True),
    Signature("info", (_V, _V), variadic=1, experimental=True),
    Signature("histogram_quantiles", (_V, _T, _S, _S), variadic=9, experimental=True),
    Signature("start", (), _S, experimental=True),
    Signature("end", (), _S, experimental=True),
    Signature("step", (), _S, experimental=True),
    Signature("max_of", (_S, _S), _S, experimental=True),
    Signature("min_of", (_S, _S), _S, experimental=True),
    Signature("start_timestamp", (_V,), experimental=True),
    Signature("range", (), _S, experimental=True),
    # Statistics of a window that Prometheus does not have: docs/statistics.md.
    *_ours("changepoint_pvalue_over_time changepoint_size_over_time", _M),
    *_ours("changepoint_time_over_time entropy_over_time", _M),
    *_ours("robust_zscore_over_time zscore_over_time", _M),
    *_ours("trend_over_time trend_pvalue_over_time", _M),
    *_ours("ewma_over_time ewma_zscore seasonal_zscore", _M, _S),
    *_ours("holt_band_over_time holt_forecast_over_time holt_trend_over_time", _M, _S, _S),
    *_ours("distribution_shift distribution_shift_pvalue", _M, _M),
    # What is learnt of each element as time goes by.
    *_ours("anomaly_score", _V),
)

# What they give depends on all the past of an element, not on a window of it.
FUNCTIONS_WITH_MEMORY: Final = frozenset({"anomaly_score"})

# The functions that read a range with the modifier; elsewhere an evaluation fails.
ANCHORED_FUNCTIONS: Final = frozenset({"changes", "delta", "increase", "rate", "resets"})
SMOOTHED_FUNCTIONS: Final = frozenset({"delta", "increase", "rate"})

# Names that a function had, or has in a neighbouring language, and what to write here.
OTHER_NAMES: Final = {
    "holt_winters": "Prometheus 3 calls it double_exponential_smoothing",
    "mean": "use avg(...) across series or avg_over_time(...[5m]) over time",
    "average": "use avg(...) across series or avg_over_time(...[5m]) over time",
    "median": "use quantile(0.5, ...) across series or quantile_over_time(0.5, ...[5m]) over time",
    "percentile": "use quantile(0.95, ...) or histogram_quantile(0.95, ...)",
    "percentile_over_time": "use quantile_over_time(0.95, ...[5m])",
    "median_over_time": "use quantile_over_time(0.5, ...[5m])",
    "range_over_time": "use max_over_time(...) - min_over_time(...)",
    "integral": "Prometheus has no such function: use avg_over_time(x[5m]) * 300, for 300 seconds",
    "derivative": "use deriv(...[5m]) for gauges or rate(...[5m]) for counters",
    "top": "use topk(5, ...)",
    "now": "use time()",
    "log": "use ln(...), log2(...) or log10(...)",
    "pow": "use the operator ^, as in x ^ 2",
    "power": "use the operator ^, as in x ^ 2",
    "if": "filter with a comparison: x > 5",
    "not": "use unless, or x == 0",
    "stddev_pop": "use stddev(...)",
    "union": "use or",
    "default_rollup": "that is MetricsQL: use last_over_time(...[5m])",
    "increase_pure": "that is MetricsQL: use increase(...[5m])",
    "label_set": "that is MetricsQL: use label_replace",
    "rollup": "that is MetricsQL: use min_over_time, avg_over_time, max_over_time",
    "is_nan": "compare x != x, which is true for NaN only",
    "isnan": "compare x != x, which is true for NaN only",
    "coalesce": "use or, as in x or vector(0)",
}


@dataclass(frozen=True, slots=True)
class Aggregator:
    """An aggregation operator; `param` is the type of its first argument, None if it has none.

    `optional`: the first argument may be left out. `ours`: Prometheus does not have it.
    """

    name: str
    param: ValueType | None = None
    example: str = ""
    experimental: bool = False
    optional: bool = False
    ours: bool = False


_PEERS = "straggler_cost straggler_score straggler_slowdown"
_PLAIN = "sum avg min max count group stddev stdvar"

AGGREGATORS: Final[dict[str, Aggregator]] = {
    row.name: row
    for row in (
        *(Aggregator(name) for name in _PLAIN.split()),
        Aggregator("topk", _S, "5"),
        Aggregator("bottomk", _S, "5"),
        Aggregator("quantile", _S, "0.9"),
        Aggregator("count_values", _T, '"value"'),
        Aggregator("limitk", _S, "10", experimental=True),
        Aggregator("limit_ratio", _S, "0.1", experimental=True),
        # An element against the others of its group: docs/statistics.md.
        *(Aggregator(name, _S, "3", optional=True, ours=True) for name in _PEERS.split()),
    )
}
