"""What lint says holds for all data: random expressions, evaluated on random data."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.dataset.dataset import MemoryDataset
from engine.labels import Labels
from engine.promql.engine import EvaluationError, evaluate
from engine.promql.value import Axis, Vector
from engine.series import Series
from rules.lint.analysis import Analysis
from rules.lint.presence import Presence
from rules.promql.parser import parse
from rules.source import ProblemsError

NAMES = ("x_total", "gauge", "comm_wait_ratio")
SELECTORS = [
    f"{name}{{{matchers}}}" for name in NAMES for matchers in ("", 'a="1"', 'a!="1"', 'a="2",b=""')
]
COMPARE = (">", ">=", "<", "<=", "==", "!=")


def _extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    number = st.sampled_from(["0", "1", "-1", "0.5", "100", "NaN"])
    grouping = st.sampled_from(["", " by (a)", " by (b)", " without (a)"])
    matching = st.sampled_from(["", " on (a)", " on ()", " ignoring (a)"])
    wrap = "({})".format
    return st.one_of(
        st.builds("{} {} {}".format, inner.map(wrap), st.sampled_from(COMPARE), number),
        st.builds("{} {} {}".format, number, st.sampled_from(COMPARE), inner.map(wrap)),
        st.builds("{} {} {}".format, inner.map(wrap), st.sampled_from("+-*/%^"), number),
        st.builds(
            "{}{}({})".format,
            st.sampled_from(["sum", "count", "avg", "max", "stddev"]),
            grouping,
            inner,
        ),
        st.builds(
            "{}({})".format, st.sampled_from(["abs", "ceil", "sgn", "absent", "sqrt", "-"]), inner
        ),
        st.builds("clamp_min({}, 2)".format, inner),
        st.builds("clamp_max({}, -2)".format, inner),
        st.builds('label_replace({}, "a", "2", "", "")'.format, inner),
        st.builds(
            "{} {}{} {}".format,
            inner.map(wrap),
            st.sampled_from(["and", "or", "unless", "+", "/", ">", "== bool"]),
            matching,
            inner.map(wrap),
        ),
    )


LEAVES = st.one_of(
    st.sampled_from(SELECTORS),
    st.builds(
        "{}({}[{}])".format,
        st.sampled_from(["rate", "changes", "max_over_time"]),
        st.sampled_from(SELECTORS),
        st.sampled_from(["10s", "1m"]),
    ),
    st.sampled_from(["vector(1)", "hour()", "vector(time())"]),
)
EXPRESSIONS = st.recursive(LEAVES, _extend, max_leaves=6)


def data(seed: int) -> MemoryDataset:
    random = np.random.default_rng(seed)
    times = np.arange(0, 600_000, 10_000, dtype=np.int64)
    found = []
    for name in NAMES:
        for labels in ({"a": "1"}, {"a": "2"}, {"a": "2", "b": "x"}, {}):
            values = random.choice([0.0, 1.0, 0.5, 3.0, 100.0, np.nan], times.size)
            if name != "gauge":
                values = np.nan_to_num(values)
            if name == "comm_wait_ratio":
                values = np.minimum(values, 1.0)
            if name == "gauge":
                values = -values
            found.append(Series(Labels({"__name__": name, **labels}), times, values))
    return MemoryDataset(tuple(sorted(found, key=lambda one: one.labels)))


@given(EXPRESSIONS, st.integers(0, 3))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_never_fires_gives_nothing_and_labels_are_those_foretold(text: str, seed: int) -> None:
    try:
        tree = parse(text)
        value = evaluate(tree, Axis.span(100_000, 590_000, 10_000, rule=True), data(seed)).value
    except (ProblemsError, EvaluationError):
        return
    analysis = Analysis(tree, 10_000)
    if not isinstance(value, Vector):
        return
    presence = analysis.presence(tree)
    if presence is Presence.NEVER:
        assert not value.present.any(), text
    if presence is Presence.ALWAYS:
        assert value.present.any(axis=0).all(), text
    flow, bounds = analysis.flow(tree), analysis.bounds(tree)
    for labels, row, present in zip(value.labels, value.values, value.present, strict=True):
        for name, found in labels:
            assert flow.can_have(name), (text, name)
            assert flow.value(name) in {None, found}, (text, name)
        numbers = row[present & ~np.isnan(row)]
        assert ((numbers >= bounds.low) & (numbers <= bounds.high)).all(), text


def test_a_chain_of_thousands_of_operators_is_looked_at_link_by_link() -> None:
    chain = Analysis(parse("x_total" + " + 1 > 0" * 3000), 10_000)
    assert not chain.impossible
