from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from notifiers.deliverytest.pairing import pairs


def test_one_that_fits_two_leaves_the_other_to_who_fits_only_there() -> None:
    assert pairs(["any", "b"], ["b", "a"], lambda one, other: one in {"any", other}) == {0: 1, 1: 0}


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), max_size=5))
def test_there_are_as_many_pairs_as_there_can_be(fits: list[list[bool]]) -> None:
    found = pairs(range(len(fits)), range(5), lambda one, other: fits[one][other])
    assert all(fits[one][other] for one, other in found.items())
    assert len(set(found.values())) == len(found)
    most = max(
        sum(fits[one][other] for one, other in enumerate(order[: len(fits)]))
        for order in permutations(range(5))
    )
    assert len(found) == most
