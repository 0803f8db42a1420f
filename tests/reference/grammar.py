"""Random series with gaps, resets, markers, NaN and Inf, and random expressions over them.

Where an operator decides by comparing (a filter, `topk`, `quantile`), what it compares is exact:
rounding must not decide which series there are.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.promqltest.script import Load, parse_script
from tests.promqltest.storage import MemoryStorage

STEP_S = 10
ITEMS = ["_", "stale", "NaN", "Inf", "-Inf", "0", "1", "2.5", "-3", "7", "8", "9", "1e9", "-0.0"]
HISTOGRAM = "{{schema:0 sum:1 count:2 buckets:[2]}}"
OTHER_HISTOGRAM = "{{schema:0 sum:1 count:3 buckets:[3]}}"
Rows = list[tuple[str, str, str, list[str]]]

SERIES = st.lists(
    st.tuples(
        st.sampled_from(["a_total", "b_total"]),
        st.sampled_from("xy"),
        st.sampled_from("12"),
        st.one_of(
            st.lists(st.sampled_from(ITEMS), min_size=1, max_size=14),
            st.lists(st.sampled_from(["_", "0", "1", "2", "3", "5", "8"]), min_size=1, max_size=14),
        ),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda row: row[:3],
)

# Long enough for every statistic, with few holes.
CALM = st.lists(
    st.tuples(
        st.sampled_from(["a_total", "b_total"]),
        st.sampled_from("xy"),
        st.sampled_from("12"),
        st.one_of(
            st.lists(
                st.sampled_from(["_", "0", "1", "2", "3", "5", "8", "13", "-4"]),
                min_size=8,
                max_size=17,
            ),
            st.lists(st.sampled_from([*ITEMS, "1", "2", "3"]), min_size=8, max_size=17),
            st.lists(st.floats(-1e3, 1e3).map(repr), min_size=8, max_size=17),
        ),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda row: row[:3],
)

# As SERIES, with native histograms among the floats.
MIXED = st.lists(
    st.tuples(
        st.sampled_from(["a_total", "b_total"]),
        st.sampled_from("xy"),
        st.sampled_from("12"),
        st.lists(
            st.sampled_from(["_", "stale", "1", "2", "5", HISTOGRAM, OTHER_HISTOGRAM]),
            min_size=1,
            max_size=12,
        ),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda row: row[:3],
)

SELECTORS = st.sampled_from(
    ["a_total", "b_total", '{__name__=~".*_total"}', 'a_total{x="x"}', 'b_total{y!="1"}']
)
RANGES = st.sampled_from(["[10s]", "[20s]", "[25s]", "[45s]", "[2m]"])
SUBQUERIES = st.sampled_from(["[50s:15s]", "[1m:]", "[30s:7s]", "[40s:20s] offset 10s"])
PAST = st.sampled_from(["", "", " offset 15s", " offset 10s"])
FUTURE = st.sampled_from(["", " offset -20s", " @ 40", " @ end()", " @ start() offset 10s"])

_EXACT_OVER_TIME = st.sampled_from(
    """min_over_time max_over_time count_over_time last_over_time first_over_time changes resets
    present_over_time absent_over_time ts_of_max_over_time ts_of_min_over_time
    ts_of_first_over_time ts_of_last_over_time""".split()  # noqa: SIM905
)
_OVER_TIME = st.sampled_from(
    """rate increase delta irate idelta deriv sum_over_time avg_over_time stddev_over_time
    stdvar_over_time mad_over_time""".split()  # noqa: SIM905
)
_WITH_PARAMS = st.sampled_from(
    [
        "quantile_over_time(0.9, {})",
        "quantile_over_time(0.5, {})",
        "quantile_over_time(1.5, {})",
        "predict_linear({}, 60)",
        "double_exponential_smoothing({}, 0.5, 0.3)",
    ]
)
_EXACT_FUNCTIONS = st.sampled_from(
    ["abs({})", "ceil({})", "floor({})", "sgn({})", "sort({})", "sort_desc({})", "timestamp({})",
     "absent({})", "clamp_min({}, 1)", "clamp_max({}, 5)", "-({})", "({} * 2)", "(3 - {})",
     "vector(scalar({}))", 'label_replace({}, "z", "$1", "x", "(x)")',
     'label_replace({}, "__name__", "q", "y", "1")']
)  # fmt: skip
_FUNCTIONS = st.sampled_from(["sqrt({})", "exp({} / 1e9)", "ln({})", "({} / 3)", "({} % 7)"])
_GROUPINGS = st.sampled_from(["", " by (x)", " without (y)", " by (__name__)", " by (x, y)"])
_EXACT_AGGREGATORS = st.sampled_from(
    ["min{} ({})", "max{} ({})", "count{} ({})", "group{} ({})", "topk{} (1, {})",
     "topk{} (2, {})", "bottomk{} (1, {})"]
)  # fmt: skip
_AGGREGATORS = st.sampled_from(
    ["sum{} ({})", "avg{} ({})", "stddev{} ({})", "stdvar{} ({})", "quantile{} (0.3, {})"]
)
_MATCHINGS = st.sampled_from(["", " on (x)", " ignoring (y)", " on (x, y)"])
_GROUPED_MATCHINGS = st.sampled_from([" on (x) group_left ()", " ignoring (y) group_right ()"])
_COMPARISONS = st.sampled_from(["> bool", "<", "== bool", "!=", ">=", "<= bool"])
_SETS = st.sampled_from(["and", "or", "unless"])
_ARITHMETIC = st.sampled_from(["+", "-", "*", "/"])


def _filled(
    templates: st.SearchStrategy[str], *inner: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    return st.builds(lambda template, *parts: template.format(*parts), templates, *inner)


def exact(modifiers: st.SearchStrategy[str] = PAST) -> st.SearchStrategy[str]:
    """Expressions that are the same to the bit however they are computed."""
    selected = st.builds("{}{}".format, SELECTORS, modifiers)
    ranged = st.builds("{}({}{}{})".format, _EXACT_OVER_TIME, SELECTORS, RANGES, modifiers)

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            _filled(_EXACT_FUNCTIONS, inner),
            _filled(_EXACT_AGGREGATORS, _GROUPINGS, inner),
            st.builds("({} {}{} {})".format, inner, _SETS, _MATCHINGS, inner),
            st.builds("({} {}{} {})".format, inner, _COMPARISONS, _MATCHINGS, inner),
            st.builds("({} {}{} {})".format, inner, _COMPARISONS, _GROUPED_MATCHINGS, inner),
            st.builds("({} {} 2)".format, inner, _COMPARISONS),
            st.builds("{}(({}){})".format, _EXACT_OVER_TIME, inner, SUBQUERIES),
        )

    return st.recursive(st.one_of(selected, ranged), extend, max_leaves=4)


def expressions(modifiers: st.SearchStrategy[str] = PAST) -> st.SearchStrategy[str]:
    """Any expression; only its outer layers may round."""
    core = exact(modifiers)
    ranged = st.one_of(
        st.builds("{}({}{}{})".format, _OVER_TIME, SELECTORS, RANGES, modifiers),
        st.builds("{}(({}){})".format, _OVER_TIME, core, SUBQUERIES),
        _filled(_WITH_PARAMS, st.builds("{}{}{}".format, SELECTORS, RANGES, modifiers)),
    )

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            _filled(_FUNCTIONS, inner),
            _filled(_AGGREGATORS.filter(lambda text: "quantile" not in text), _GROUPINGS, inner),
            st.builds("({} {}{} {})".format, inner, _ARITHMETIC, _MATCHINGS, inner),
            st.builds("({} {}{} {})".format, inner, _SETS, _MATCHINGS, inner),
        )

    outer = st.one_of(ranged, _filled(_AGGREGATORS, _GROUPINGS, core))
    return st.one_of(core, st.recursive(outer, extend, max_leaves=2))


def extended() -> st.SearchStrategy[str]:
    """Ranges and selectors with a modifier."""
    return st.one_of(
        st.builds(
            "{}({}{} anchored{})".format,
            st.sampled_from(["changes", "delta", "increase", "rate", "resets"]),
            SELECTORS,
            RANGES,
            PAST,
        ),
        st.builds(
            "{}({}{} smoothed{})".format,
            st.sampled_from(["delta", "increase", "rate"]),
            SELECTORS,
            RANGES,
            FUTURE,
        ),
        st.builds("{} smoothed{}".format, SELECTORS, FUTURE),
    )


def statistics(modifiers: st.SearchStrategy[str] = PAST) -> st.SearchStrategy[str]:
    """Statistics of windows that Prometheus does not have."""
    functions = st.sampled_from(
        ["changepoint_pvalue_over_time({})", "changepoint_size_over_time({})",
         "changepoint_time_over_time({})", "entropy_over_time({})", "ewma_over_time({}, 25)",
         "ewma_zscore({}, 1m)", "holt_band_over_time({}, 0.5, 0.2)",
         "holt_forecast_over_time({}, 0.3, 0.1)", "holt_trend_over_time({}, 0.9, 0.5)",
         "robust_zscore_over_time({})", "seasonal_zscore({}, 30)", "trend_over_time({})",
         "trend_pvalue_over_time({})", "zscore_over_time({})"]
    )  # fmt: skip
    ranges = st.sampled_from(["[95s]", "[2m]", "[3m]"])
    return st.one_of(
        _filled(functions, st.builds("{}{}{}".format, SELECTORS, ranges, modifiers)),
        _filled(functions, st.builds("({})[2m:10s]".format, exact(modifiers))),
    )


def filled() -> st.SearchStrategy[str]:
    """Operators whose missing side is filled."""
    return st.builds(
        "({} {}{}{} {})".format,
        SELECTORS,
        st.sampled_from(["+", "-", "> bool", "<", "!="]),
        st.sampled_from(
            [" on (x)", " on (y, x)", " on (x) group_left ()", " on (y) group_right ()"]
        ),
        st.sampled_from(
            [" fill (0)", " fill_left (2)", " fill_right (7)", " fill_left (1) fill_right (-3)"]
        ),
        SELECTORS,
    )


def stored(series: Rows) -> MemoryStorage:
    """The series as a load command would leave them, a sample every 10 s."""
    lines = [f' {name}{{x="{x}",y="{y}"}} {" ".join(items)}' for name, x, y, items in series]
    (command,) = parse_script(f"load {STEP_S}s\n" + "\n".join(lines))
    assert isinstance(command, Load)
    storage = MemoryStorage()
    storage.load(command)
    return storage
