"""limitk and limit_ratio: which series they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.labels import Labels
from engine.promql.engine import EvaluationError
from engine.promql.label_hash import label_hash, xxh64
from engine.promql.value import Axis

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.promql.conftest import Data

# As the reference implementation of xxHash computes them.
HASHES = [
    (b"", 0xEF46DB3751D8E999),
    (b"a", 0xD24EC4F1A98C6E5B),
    (b"abc", 0x44BC2CF5AD770999),
    (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
]
SERIES = "10s\n" + "\n".join(f' w{{g="{n % 2}",n="{n}"}} {n}x5' for n in range(40))


@pytest.mark.parametrize(("data", "expected"), HASHES)
def test_the_hash_is_xxh64(data: bytes, expected: int) -> None:
    assert xxh64(data) == expected


def test_a_label_set_is_hashed_as_prometheus_stores_it() -> None:
    long = "x" * 300
    labels = Labels.of(a="1", b=long)
    assert label_hash(labels) == xxh64(b"\x01a\x011\x01b\xff\x2c\x01\x00" + long.encode())


def test_limitk_takes_the_first_of_each_group_that_are_there(load: Callable[[str], Data]) -> None:
    data = load('10s\n w{g="a",n="1"} 1 _\n w{g="a",n="2"} 2 2\n w{g="b",n="3"} 3 3')
    assert list(data.at(0, "limitk by (g) (1, w)")) == ['w{g="a", n="1"}', 'w{g="b", n="3"}']
    assert data.at(0, "limitk(0, w)") == {}
    assert data.at(0, "limitk(-1, w)") == {}
    assert data.at(0, "count(limitk(9, w))") == {"{}": 3}


def test_a_ratio_and_its_complement_share_the_series(load: Callable[[str], Data]) -> None:
    data = load(SERIES)
    for ratio in (0.1, 0.5, 0.9):
        some = set(data.at(0, f"limit_ratio({ratio}, w)"))
        rest = set(data.at(0, f"limit_ratio({ratio - 1}, w)"))
        assert some
        assert rest
        assert not some & rest
        assert len(some | rest) == 40
    assert len(data.at(0, "limit_ratio(1, w)")) == len(data.at(0, "limit_ratio(-1, w)")) == 40
    assert data.at(0, "limit_ratio(0, w)") == {}


def test_a_ratio_out_of_range_is_capped_with_a_warning(load: Callable[[str], Data]) -> None:
    result = load(SERIES).on("limit_ratio(1.5, w)", Axis.instant(0))
    assert result.warnings == (
        "PromQL warning: ratio value should be between -1 and 1, got 1.5, capping to 1 (1:13)",
    )


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        ("limitk(NaN, w)", "Parameter value is NaN"),
        ("limitk(1e30, w)", "Scalar value 1e+30 overflows int64"),
        ("limit_ratio(NaN, w)", "Ratio value is NaN"),
    ],
)
def test_a_parameter_that_is_no_limit_is_refused(
    expr: str, message: str, load: Callable[[str], Data]
) -> None:
    with pytest.raises(EvaluationError, match=message.replace("+", r"\+")) as caught:
        load(SERIES).at(0, expr)
    assert caught.value.span is not None
