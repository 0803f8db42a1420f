"""NVIDIA's own libnccl, from PyPI: no GPU is needed to find its functions and to call them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from probes.elf.exits import find_exits
from probes.elf.image import Image
from probes.elf.symbols import find_functions
from probes.functions.places import find_places
from probes.nccl.functions import FUNCTIONS, LIBRARY, RESULT
from tests.e2e.wheels import library
from tests.probes.nccl.driving import Driver

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKLOAD = Path(__file__).with_name("workloads") / "nccl_calls.py"
# The oldest that PyPI has with ncclCommSplit, the one of PyTorch 2.4, the newest.
OLD, MIDDLE, NEW = (f"nvidia-nccl-cu12=={version}" for version in ("2.18.1", "2.21.5", "2.32.3"))
ON_ARM64 = "nvidia-nccl-cu12==2.31.2"
ARM64 = "manylinux_2_18_aarch64"
NAME = "libnccl.so.2"
# What 2.22 and earlier do not have.
LATER = frozenset(
    f"nccl{name}"
    for name in (
        "CommShrink",
        "CommGrow",
        "CommRevoke",
        "CommInitRankScalable",
        "AlltoAll",
        "Gather",
        "Scatter",
    )
)


@pytest.mark.parametrize(
    ("wheel", "platform"), [(OLD, ""), (MIDDLE, ""), (NEW, ""), (ON_ARM64, ARM64)], ids=str
)
def test_every_function_is_found_with_all_its_exits(wheel: str, platform: str) -> None:
    with Image(str(library(wheel, NAME, platform=platform))) as image:
        for function in FUNCTIONS:
            if function.library != LIBRARY:
                continue
            places = find_places(image, function)
            expected = function.name.removesuffix(RESULT) not in LATER or wheel in (NEW, ON_ARM64)
            assert bool(places.symbols) is expected, function.name
            assert not places.reason, (function.name, places.detail)
            # pncclX and ncclX, its weak alias, are one place.
            names = {symbol.removeprefix("p") for symbol in function.symbols}
            assert len(places.symbols) <= len(names)


def test_a_broadcast_in_place_is_left_to_the_function_that_it_calls() -> None:
    with Image(str(library(NEW, NAME))) as image:
        (found,) = find_functions(image, "ncclBcast")
        assert found.size < 64
        assert find_exits(image, found).addresses


class Caller:
    """A process that calls a real libnccl."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKLOAD), str(path)],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = int(self.read())

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def do(self, word: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.read()


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    driver = Driver(events=100, budget={"enabled": False})
    yield driver
    driver.probe.stop()


@pytest.fixture(params=[OLD, NEW], ids=["2.18.1", "2.32.3"])
def caller(request: pytest.FixtureRequest, driver: Driver) -> Iterator[tuple[Caller, str]]:
    assert driver.status.state != "off", driver.status
    caller = Caller(library(request.param, NAME))
    driver.attach()
    driver.all.clear()
    yield caller, request.param
    caller.process.kill()
    caller.process.communicate()


@pytest.mark.root
def test_a_failed_initialisation_tells_rank_ranks_communicator_and_result(
    driver: Driver, caller: tuple[Caller, str]
) -> None:
    process, wheel = caller
    second = Caller(library(wheel, NAME))
    try:
        driver.attach()
        assert [process.do("init"), process.do("init_config"), second.do("init")] == ["1"] * 3
        driver.flush()
    finally:
        second.process.kill()
        second.process.communicate()
    events = [fields for kind, fields in driver.events(process.pid) if kind == "nccl_init_failed"]
    assert [(e["call"], e["comm_rank"], e["nranks"]) for e in events] == [
        ("ncclCommInitRank", 5, 8),
        ("ncclCommInitRankConfig", 9, 16),
    ]
    assert {e["result"] for e in events} == {"ncclUnhandledCudaError"}
    # The same unique id: one name, in every process.
    others = [fields for _, fields in driver.events(second.pid)]
    assert len({e["communicator"] for e in (*events, *others)}) == 1
    labels = {"result": "ncclUnhandledCudaError"}
    assert driver.total("nccl_errors_total", process.pid, op="CommInitRank", **labels) == 1
    assert driver.total("nccl_errors_total", process.pid, op="CommInitRankConfig", **labels) == 1


@pytest.mark.root
def test_counts_types_and_results_of_calls_are_read_right(
    driver: Driver, caller: tuple[Caller, str]
) -> None:
    process, _ = caller
    results = process.do("collectives")
    assert results == str([4] * 8)
    driver.flush()
    expected = {
        "AllReduce": 1000 * 8,
        "ReduceScatter": 1000 * 8,
        "AllGather": 1002 * 2,
        "Reduce": 1004 * 4,
        "Send": 1005 * 8,
        "Recv": 1006 * 1,
    }
    for op, size in expected.items():
        assert driver.total("nccl_calls_total", process.pid, op=op) == 1
        assert driver.total("nccl_bytes_total", process.pid, op=op) == size
        labels = {"op": op, "result": "ncclInvalidArgument"}
        assert driver.total("nccl_errors_total", process.pid, **labels) == 1
    # ncclBroadcast and ncclBcast.
    assert driver.total("nccl_calls_total", process.pid, op="Broadcast") == 2
    assert driver.total("nccl_bytes_total", process.pid, op="Broadcast") == 1001 * 2 + 1003


@pytest.mark.root
def test_the_communicator_is_read_right_and_new_calls_too(
    driver: Driver, caller: tuple[Caller, str]
) -> None:
    process, wheel = caller
    if wheel == OLD:
        # It looks into what it is given and crashes, with or without a probe.
        return
    address = int(process.do("collectives_with").split()[0])
    assert process.do("new") == str([4] * 4)
    driver.flush()
    views = driver.running.settlement.maps.read().views.values()
    (view,) = [view for view in views if view.process.tgid == process.pid]
    assert [place.address for place in view.communicators] == [address]
    # Of the eight, whose communicator is the fifth, sixth or seventh argument.
    assert view.process.enqueued == 8 + 4
    sizes = {"AlltoAll": 1007 * 4, "Gather": 1008 * 4, "Scatter": 1008 * 4}
    for op, size in sizes.items():
        assert driver.total("nccl_bytes_total", process.pid, op=op) == size
    assert driver.total("nccl_bytes_total", process.pid, op="AllReduce") == 1000 * 8 + 1009 * 4
