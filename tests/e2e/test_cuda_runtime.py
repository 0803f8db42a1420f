"""NVIDIA's own libcudart, from PyPI: no GPU is needed to find its functions and to call them."""

from __future__ import annotations

import pytest

from probes.cuda.calls import CALLS, RUNTIME
from probes.elf.exits import find_exits
from probes.elf.image import Image
from probes.elf.symbols import find_functions
from tests.e2e.wheels import library

CUDA_12 = ("nvidia-cuda-runtime-cu12==12.9.79", "libcudart.so.12")
CUDA_13 = ("nvidia-cuda-runtime==13.5.37", "libcudart.so.13")
ARM64 = "manylinux2014_aarch64"
# Deprecated in 12, gone in 13.
DROPPED = "cudaThreadSynchronize"


@pytest.mark.parametrize(
    ("wheel", "platform"), [(CUDA_12, ""), (CUDA_13, ""), (CUDA_12, ARM64)], ids=str
)
def test_every_function_is_found_with_its_twins_and_all_its_exits(
    wheel: tuple[str, str], platform: str
) -> None:
    with Image(str(library(*wheel, platform=platform))) as image:
        for call in CALLS:
            if call.library != RUNTIME:
                continue
            for symbol in call.symbols:
                found = find_functions(image, symbol)
                assert len(found) == 1 or symbol == DROPPED, symbol
                for function in found:
                    exits = find_exits(image, function)
                    assert exits.addresses, (symbol, exits.reason)
