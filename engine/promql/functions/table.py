"""The table of functions: a name and what computes it. A new function is a new row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.functions import (
    absence,
    arithmetic,
    baselines,
    changepoints,
    conversion,
    dates,
    entropy,
    ewma,
    histograms,
    holt,
    info,
    over_time,
    rates,
    relabel,
    robust_trends,
    seasonal,
    shift,
    sorting,
    trends,
    zscores,
)
from engine.promql.functions.shapes import over_native_histograms, over_vector, over_windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.promql.functions.shapes import Implementation

_RATES: Mapping[str, Implementation] = {
    "rate": over_windows(rates.rate, check=rates.looks_like_counter),
    "increase": over_windows(rates.increase, check=rates.looks_like_counter),
    "delta": over_windows(rates.delta),
    "irate": over_windows(rates.irate),
    "idelta": over_windows(rates.idelta),
    "changes": over_windows(rates.changes),
    "resets": over_windows(rates.resets),
    "deriv": over_windows(trends.deriv),
    "predict_linear": over_windows(trends.predict_linear, params=(1,)),
    "double_exponential_smoothing": over_windows(
        trends.double_exponential_smoothing, params=(1, 2)
    ),
}

_OVER_TIME: Mapping[str, Implementation] = {
    "avg_over_time": over_windows(over_time.avg_over_time),
    "count_over_time": over_windows(over_time.count_over_time),
    "first_over_time": over_windows(over_time.first_over_time, keeps_name=True),
    "last_over_time": over_windows(over_time.last_over_time, keeps_name=True),
    "mad_over_time": over_windows(over_time.mad_over_time),
    "max_over_time": over_windows(over_time.max_over_time),
    "min_over_time": over_windows(over_time.min_over_time),
    "present_over_time": over_windows(over_time.present_over_time),
    "quantile_over_time": over_windows(
        over_time.quantile_over_time, matrix=1, params=(0,), check=over_time.quantile_in_range
    ),
    "stddev_over_time": over_windows(over_time.stddev_over_time),
    "stdvar_over_time": over_windows(over_time.stdvar_over_time),
    "sum_over_time": over_windows(over_time.sum_over_time),
    "ts_of_first_over_time": over_windows(over_time.ts_of_first_over_time),
    "ts_of_last_over_time": over_windows(over_time.ts_of_last_over_time),
    "ts_of_max_over_time": over_windows(over_time.ts_of_max_over_time),
    "ts_of_min_over_time": over_windows(over_time.ts_of_min_over_time),
}

_ARITHMETIC: Mapping[str, Implementation] = {
    "abs": over_vector(np.abs),
    "acos": over_vector(np.arccos),
    "acosh": over_vector(np.arccosh),
    "asin": over_vector(np.arcsin),
    "asinh": over_vector(np.arcsinh),
    "atan": over_vector(np.arctan),
    "atanh": over_vector(np.arctanh),
    "ceil": over_vector(np.ceil),
    "clamp": arithmetic.clamp,
    "clamp_max": over_vector(arithmetic.clamp_max, params=(1,)),
    "clamp_min": over_vector(arithmetic.clamp_min, params=(1,)),
    "cos": over_vector(np.cos),
    "cosh": over_vector(np.cosh),
    "deg": over_vector(arithmetic.deg),
    "exp": over_vector(np.exp),
    "floor": over_vector(np.floor),
    "ln": over_vector(np.log),
    "log10": over_vector(np.log10),
    "log2": over_vector(np.log2),
    "pi": arithmetic.constant(np.pi),
    "rad": over_vector(arithmetic.rad),
    "round": over_vector(arithmetic.round_to, params=(1,)),
    "sgn": over_vector(arithmetic.sgn),
    "sin": over_vector(np.sin),
    "sinh": over_vector(np.sinh),
    "sqrt": over_vector(np.sqrt),
    "tan": over_vector(np.tan),
    "tanh": over_vector(np.tanh),
}

_DATES: Mapping[str, Implementation] = {
    "day_of_month": dates.of_date(dates.day_of_month),
    "day_of_week": dates.of_date(dates.day_of_week),
    "day_of_year": dates.of_date(dates.day_of_year),
    "days_in_month": dates.of_date(dates.days_in_month),
    "hour": dates.of_date(dates.hour),
    "minute": dates.of_date(dates.minute),
    "month": dates.of_date(dates.month),
    "year": dates.of_date(dates.year),
}

_REST: Mapping[str, Implementation] = {
    "absent": absence.absent,
    "absent_over_time": absence.absent_over_time,
    "anomaly_score": baselines.anomaly_score,
    "histogram_avg": over_native_histograms,
    "histogram_count": over_native_histograms,
    "histogram_fraction": histograms.histogram_fraction,
    "histogram_quantile": histograms.histogram_quantile,
    "histogram_quantiles": histograms.histogram_quantiles,
    "histogram_stddev": over_native_histograms,
    "histogram_stdvar": over_native_histograms,
    "histogram_sum": over_native_histograms,
    "info": info.info,
    "label_join": relabel.label_join,
    "label_replace": relabel.label_replace,
    "max_of": conversion.of_two(np.maximum),
    "min_of": conversion.of_two(np.minimum),
    "range": conversion.query_range,
    "scalar": conversion.scalar,
    "sort": sorting.by_value(descending=False),
    "sort_by_label": sorting.by_label(descending=False),
    "sort_by_label_desc": sorting.by_label(descending=True),
    "sort_desc": sorting.by_value(descending=True),
    "start": conversion.query_start,
    "start_timestamp": conversion.start_timestamp,
    "step": conversion.query_step,
    "end": conversion.query_end,
    "time": conversion.time,
    "timestamp": conversion.timestamp,
    "vector": conversion.vector,
}

# Not in Prometheus. What each of them is, docs/statistics.md tells by its docstring.
_STATISTICS: Mapping[str, Implementation] = {
    "changepoint_pvalue_over_time": over_windows(changepoints.changepoint_pvalue_over_time),
    "changepoint_size_over_time": over_windows(changepoints.changepoint_size_over_time),
    "changepoint_time_over_time": over_windows(changepoints.changepoint_time_over_time),
    "entropy_over_time": over_windows(entropy.entropy_over_time),
    "ewma_over_time": over_windows(ewma.ewma_over_time, params=(1,)),
    "ewma_zscore": over_windows(ewma.ewma_zscore, params=(1,)),
    "holt_band_over_time": over_windows(holt.holt_band_over_time, params=(1, 2)),
    "holt_forecast_over_time": over_windows(holt.holt_forecast_over_time, params=(1, 2)),
    "holt_trend_over_time": over_windows(holt.holt_trend_over_time, params=(1, 2)),
    "robust_zscore_over_time": over_windows(zscores.robust_zscore_over_time),
    "seasonal_zscore": over_windows(seasonal.seasonal_zscore, params=(1,)),
    "trend_over_time": over_windows(robust_trends.trend_over_time),
    "trend_pvalue_over_time": over_windows(robust_trends.trend_pvalue_over_time),
    "zscore_over_time": over_windows(zscores.zscore_over_time),
}

_OF_TWO_WINDOWS: Mapping[str, Implementation] = {
    "distribution_shift": shift.over_two_windows(shift.distribution_shift),
    "distribution_shift_pvalue": shift.over_two_windows(shift.distribution_shift_pvalue),
}

STATISTICS: Mapping[str, Implementation] = {**_STATISTICS, **_OF_TWO_WINDOWS}

IMPLEMENTATIONS: Mapping[str, Implementation] = {
    **_RATES,
    **_OVER_TIME,
    **STATISTICS,
    **_ARITHMETIC,
    **_DATES,
    **_REST,
}

# Each row of the result depends on one series of the argument only, and its labels stay.
ROW_WISE = frozenset({*_RATES, *_OVER_TIME, *_STATISTICS, *_ARITHMETIC, *_DATES, "timestamp"})
