"""The probe on kernels that lack something, and where it may not run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from engine.readings import ProbeOptions, Watched
from probes.bpf.errors import UnavailableError
from probes.tcp_retransmit import layouts
from probes.tcp_retransmit.limits import Limits
from probes.tcp_retransmit.probe import TcpRetransmitProbe

if TYPE_CHECKING:
    from engine.readings import Reading
    from probes.tcp_retransmit.flow import Record

ROOT = Path(__file__).resolve().parents[3]


def test_limits_are_settable_and_nonsense_keeps_the_default() -> None:
    limits = Limits.from_settings({"flows_limit": 1, "ring_pages": "many", "other": 3})
    assert limits == Limits(flows=1)


def test_a_ring_is_rounded_up_to_what_the_kernel_takes() -> None:
    assert [Limits(ring_pages=n).defines()["RING_PAGES"] for n in (1, 2, 3, 64, 65)] == [
        1,
        2,
        4,
        64,
        128,
    ]


def test_a_probe_that_never_started_answers_everything() -> None:
    probe = TcpRetransmitProbe()
    probe.poll()
    probe.collect()
    assert probe.produced().produced == ()
    probe.stop()
    assert probe.status().state == "off"


def test_a_process_that_ended_unseen_leaves_the_kernels_table() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as short:
        short.wait()

    class Program:
        table: ClassVar = {short.pid: 1, os.getpid(): 1}

        def processes(self) -> list[tuple[int, int]]:
            return list(self.table.items())

        def forget_process(self, pid: int) -> None:
            del self.table[pid]

        def records(self) -> list[Record]:
            return []

    probe = TcpRetransmitProbe()
    probe._program = Program()  # type: ignore[assignment]
    for _ in range(2):
        probe.poll()
    assert set(Program.table) == {os.getpid()}
    assert set(probe._newest) == {os.getpid()}


def test_what_was_skipped_is_told_with_the_reading_that_shows_it() -> None:
    class Program:
        skipped = 0

        def produced(self) -> tuple[tuple[str, int], ...]:
            self.skipped = 3
            return (("", 390),)

        def lost(self) -> tuple[tuple[tuple[str, str], int], ...]:
            return ((("", "skipped"), self.skipped),)

        def map_use(self) -> tuple[object, ...]:
            return ()

    probe = TcpRetransmitProbe()
    probe._program = Program()  # type: ignore[assignment]
    assert dict(probe.produced().lost)["", "skipped"] == 3


@pytest.mark.root
def test_without_a_tracepoint_it_polls_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(category: str, event: str) -> None:
        raise UnavailableError("no_tracepoint", f"no {category}:{event}", "a newer kernel")

    monkeypatch.setattr(layouts, "read_format", absent)
    readings: list[Reading] = []
    probe = TcpRetransmitProbe()
    status = probe.start(ProbeOptions(), readings.append)
    assert (status.state, status.reason) == ("degraded", "poller")
    assert status.detail.startswith("no tcp:tcp_retransmit_skb; polled instead")
    assert status.mend == "a newer kernel"
    watched = {metric for r in readings if isinstance(r, Watched) for metric, _ in r.metrics}
    assert "tcp_retrans_total" not in watched  # a 0 would claim that there was none
    probe.stop()
    assert probe.status().state == "off"
