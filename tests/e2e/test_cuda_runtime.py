"""NVIDIA's own libcudart, from PyPI: no GPU is needed to find its functions and to call them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from probes.cuda.calls import CALLS, RUNTIME
from probes.elf.exits import find_exits
from probes.elf.image import Image
from probes.elf.symbols import find_functions
from tests.e2e.wheels import library
from tests.probes.cuda.driving import Driver, held, totals

if TYPE_CHECKING:
    from collections.abc import Iterator

CUDA_12 = ("nvidia-cuda-runtime-cu12==12.9.79", "libcudart.so.12")
CUDA_13 = ("nvidia-cuda-runtime==13.5.37", "libcudart.so.13")
ARM64 = "manylinux2014_aarch64"
# Deprecated in 12, gone in 13.
DROPPED = "cudaThreadSynchronize"
CALLER = Path(__file__).with_name("workloads") / "cuda_calls.py"
# Bytes of the calls that the workload makes, twice each.
COPIED = {
    "cudaMemcpy h2d": 2 * 1000,
    "cudaMemcpyAsync d2h": 2 * 2000,
    "cudaMemcpy2D d2d": 2 * 64 * 10,
    "cudaMemcpy2DAsync default": 2 * 64 * 20,
    "cudaMemcpyPeer peer": 2 * 3000,
    "cudaMemcpyPeerAsync peer": 2 * 4000,
}


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


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    driver = Driver()
    if driver.status.state == "off":
        pytest.skip(f"the cuda probe is off here: {driver.status.detail}")
    yield driver
    driver.probe.stop()


@pytest.mark.root
@pytest.mark.parametrize("wheel", [CUDA_12, CUDA_13], ids=str)
def test_every_call_is_seen_with_its_bytes_and_its_error_though_there_is_no_gpu(
    driver: Driver, wheel: tuple[str, str]
) -> None:
    path = library(*wheel)
    command = [sys.executable, str(CALLER), str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as caller:  # type: ignore[call-overload]
        assert caller.stdout.readline() == "ready\n"
        driver.attach()
        files = [f for f in driver.sites._files.values() if f.path == str(path)]
        assert [len(f.sites) for f in files] == [sum(call.library == RUNTIME for call in CALLS)]
        assert all(site.attachments and not site.reason for f in files for site in f.sites.values())
        caller.stdin.write("\n")
        caller.stdin.flush()
        answers: dict[str, list[int]] = json.loads(caller.stdout.readline())
        readings = driver.flush()
        caller.stdin.close()
    if not any(any(results) for results in answers.values()):
        pytest.skip("cannot be tried here: this machine has a GPU, and every call succeeds")
    made: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    launches = {call.name for call in CALLS if not call.timed}
    for symbol, results in answers.items():
        name = symbol.removesuffix("_ptsz")
        made[name] += len(results)
        failed[name] += sum(result != 0 for result in results) * (name not in launches)
    assert totals(readings, "cuda_calls_total", caller.pid) == made
    assert totals(readings, "cuda_errors_total", caller.pid) == +failed
    assert totals(readings, "cuda_bytes_total", caller.pid) == COPIED
    assert not held(readings, caller.pid)
