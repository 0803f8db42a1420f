"""The counters of an adapter that the kernel makes in software: rxe, on a network of our own.

Where the running kernel has no such module the test is skipped; Debian's kernels have it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.readings import Count, Level, ProbeOptions
from probes.rdma import sysfs
from probes.rdma.probe import RdmaProbe
from probes.rdma.sampler import Sampler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.readings import Reading

pytestmark = [pytest.mark.root, pytest.mark.each_kernel]

DEVICE, LINK = "swrxe0", "swdummy0"
HOLD = "import sys; file = open(sys.argv[1], 'rb'); print(flush=True); sys.stdin.read()"
# The kernel answers from memory what it read less than this ago (RDMA_HW_STATS_DEFAULT_LIFESPAN).
STALE_SECONDS = 0.02


def _run(*command: str) -> str:
    """What a command complained of."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


@pytest.fixture
def link() -> Iterator[str]:
    """The network device below the adapter."""
    try:
        _run("modprobe", "-a", "rdma_rxe", "ib_uverbs", "dummy")
        words = (
            _run("ip", "link", "add", LINK, "type", "dummy")
            or _run("ip", "link", "set", LINK, "up")
            or _run("rdma", "link", "add", DEVICE, "type", "rxe", "netdev", LINK)
        )
    except FileNotFoundError as error:
        words = str(error)
    if words:
        _run("ip", "link", "del", LINK)
        pytest.skip(f"this machine makes no RDMA device in software: {words}")
    yield LINK
    _run("rdma", "link", "del", DEVICE)
    _run("ip", "link", "del", LINK)


def test_a_port_that_goes_down_is_counted_and_who_has_the_device_open_is_told(link: str) -> None:
    readings: list[Reading] = []
    sampler = Sampler()
    probe = RdmaProbe(sampler=sampler)
    assert probe.start(ProbeOptions(), readings.append).state == "attached"
    sampler.look()
    probe.collect()
    for _ in range(3):
        assert not _run("ip", "link", "set", link, "down")
        assert not _run("ip", "link", "set", link, "up")
    time.sleep(STALE_SECONDS)
    node = next(
        each.name
        for each in (sysfs.SYSFS / "infiniband_verbs").glob("uverbs*")
        if (each / "ibdev").read_text(encoding="ascii").strip() == DEVICE
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(Path("/dev/infiniband", node))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"STALLWATCH_TASK_ID": "job", "RANK": "0"},
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        readings.clear()
        sampler.look()
        probe.collect()
    finally:
        holder.communicate()
        probe.stop()
    grown = {
        (each.metric, dict(each.labels).get("cause", "")): each.delta
        for each in readings
        if isinstance(each, Count) and dict(each.labels)["device"] == DEVICE
    }
    assert {meaning: delta for meaning, delta in grown.items() if delta} == {
        ("rdma_errors_total", "link_downed"): 3
    }
    # What rxe tells, by the names of this kernel.
    assert {
        ("rdma_retrans_total", "duplicate_request"),
        ("rdma_retrans_total", "out_of_sequence"),
        ("rdma_retrans_total", "retry"),
        ("rdma_errors_total", "retry_exceeded"),
    } <= set(grown)
    holders = [
        each.process.pid
        for each in readings
        if isinstance(each, Level) and each.metric == "rdma_device_held" and each.process
    ]
    assert holders == [holder.pid]
