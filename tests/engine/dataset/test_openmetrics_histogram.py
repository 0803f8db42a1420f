"""Native histograms from OpenMetrics' notation to promqltest's and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.dataset.openmetrics_histogram import read_openmetrics, write_openmetrics_histogram
from engine.native_histogram import Histogram, HistogramError

READ = {
    "{count:2,sum:1}": "{{count:2 sum:1}}",
    "{count:4,sum:5.6,schema:1,zero_threshold:0.1,zero_count:1,positive_spans:[-1:2,2:1],"
    "positive_buckets:[4,2,3]}": "{{count:4 sum:5.6 schema:1 z_bucket:1 z_bucket_w:0.1 offset:-1 "
    "buckets:[4 2 0 0 3]}}",
    "{ count:1, sum:-2, schema:0, negative_spans:[3:1], negative_buckets:[1] }": "{{count:1 sum:-2 "
    "schema:0 n_offset:3 n_buckets:[1]}}",
    "{count:6,sum:4,bucket:[1:1,2.5:3,+Inf:6]}": "{{count:6 sum:4 schema:-53 "
    "custom_values:[1 2.5] buckets:[1 2 3]}}",
}


@pytest.mark.parametrize("text", READ)
def test_it_is_read(text: str) -> None:
    assert Histogram.read(read_openmetrics(text)) == Histogram.read(READ[text])


REFUSED = {
    "{count:x}": "not a number in a native histogram: 'x'",
    "{count:1,count:1}": "'count' appears twice",
    "{width:1}": "a native histogram of OpenMetrics has no 'width'",
    "{count:1,positive_spans:[0:1]}": "0 counts for 1 buckets in spans",
    "{count:1,positive_spans:[0:1,-3:1],positive_buckets:[1,1]}": "a span of buckets is out of or",
    "{count:1,positive_spans:[0:999999]}": "a span of buckets is out of order or too far",
    "{count:1,positive_spans:1}": "not a list in a native histogram",
    "{count:1,positive_spans:[x],positive_buckets:[1]}": "not a span of buckets: 'x'",
    "{count:1,bucket:[1]}": "not a list of buckets: '1'",
    "{count 1}": "not a field of a native histogram: 'count 1'",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(HistogramError) as caught:
        read_openmetrics(text)
    assert str(caught.value).startswith(REFUSED[text])


NUMBERS = st.one_of(st.integers(0, 10**6).map(float), st.floats(0, 1e300, allow_subnormal=False))
BUCKETS = st.dictionaries(st.integers(-20, 20), NUMBERS.filter(bool), max_size=6)


@settings(max_examples=100, deadline=None)
@given(NUMBERS, NUMBERS, BUCKETS, BUCKETS, st.integers(-4, 8))
def test_it_comes_back_as_it_went(
    count: float, total: float, positive: dict[int, float], negative: dict[int, float], schema: int
) -> None:
    own = Histogram(schema, count, total, 1.5, 0.25, positive, negative)
    again = Histogram.read(read_openmetrics(write_openmetrics_histogram(str(own))))
    for side in (again.positive, again.negative):
        for index in [index for index, value in side.items() if not value]:
            del side[index]
    assert again == own


def test_bounds_of_ones_own_come_back() -> None:
    text = "{{schema:-53 count:6 sum:4 custom_values:[1 2.5] buckets:[1 2 3]}}"
    again = read_openmetrics(write_openmetrics_histogram(text))
    assert Histogram.read(again) == Histogram.read(text)
