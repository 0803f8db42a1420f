from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from probes.cuda.calls import CALLS, DIRECTIONS, DRIVER, RUNTIME, call_at, slot
from probes.elf.exits import find_exits
from probes.elf.image import Image
from probes.elf.symbols import find_functions

if TYPE_CHECKING:
    from pathlib import Path


def test_a_slot_names_its_function_and_direction_again() -> None:
    for call in CALLS:
        for direction in DIRECTIONS:
            found, way = call_at(slot(call.name, direction))
            assert (found, way) == (call, direction)


def test_a_slot_of_no_function_is_refused() -> None:
    with pytest.raises(IndexError):
        call_at(len(CALLS) * len(DIRECTIONS))


def test_each_function_has_a_name_of_its_own_and_no_symbol_belongs_to_two() -> None:
    symbols = [(call.library, symbol) for call in CALLS for symbol in call.symbols]
    assert len({call.name for call in CALLS}) == len(CALLS)
    assert len(set(symbols)) == len(symbols)


def test_the_twin_of_a_versioned_function_has_its_suffix_last() -> None:
    (copy,) = [call for call in CALLS if call.name == "cuMemcpyHtoDAsync"]
    assert copy.symbols == ("cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2_ptsz")


@pytest.mark.parametrize(
    ("library", "name"), [(RUNTIME, "libcudart.so.12"), (DRIVER, "libcuda.so.1")]
)
def test_the_stand_in_has_every_function_that_is_probed_and_shows_its_exits(
    stand_in: Path, library: str, name: str
) -> None:
    with Image(str(stand_in.with_name(name))) as image:
        for call in CALLS:
            if call.library != library:
                continue
            (function,) = find_functions(image, call.symbols[0])
            assert not find_exits(image, function).reason
