"""The line about the shared watch, and its settings."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

import pytest

from engine.readings import Level, ProbeOptions, Reading
from probes.bpf import capabilities
from probes.libraries import shared
from probes.libraries.limits import Limits
from probes.libraries.probe import METRIC, PROGRAMS, LibrariesProbe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probes.libraries.watch import LibraryWatch
    from tests.probes.libraries.conftest import Machine


class Driver:
    def __init__(self, watch: LibraryWatch) -> None:
        self.watch = watch
        self.probe = LibrariesProbe()
        self.readings: list[Reading] = []
        self.probe.start(ProbeOptions({"looks_per_poll": 7}), self._take)

    def _take(self, reading: Reading) -> None:
        self.readings.append(reading)

    def levels(self) -> dict[tuple[str, str], float]:
        self.readings.clear()
        self.probe.collect()
        return {
            (each.metric, each.labels[0][1]): each.value
            for each in self.readings
            if isinstance(each, Level)
        }


@pytest.fixture
def driver(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    watch = machine.shared()
    monkeypatch.setattr(shared, "current", lambda: watch)
    yield Driver(watch)
    shared.configure(Limits())


def refuse_unless_mine(pid: int, proc: object) -> bytes:
    if pid != os.getpid():
        raise PermissionError
    return b""


def test_what_it_sees_and_cannot_see_is_told_in_metrics_and_in_its_line(
    driver: Driver, machine: Machine
) -> None:
    machine.runs(20, [("/lib64/ld-linux-x86-64.so.2", 7), ("/v/libtorch_cpu.so", 9)])
    machine.runs(21, [])  # maps its own program and no linker
    driver.watch.subscribe("libtorch_cpu.so").poll()
    levels = driver.levels()
    assert (levels[METRIC, "watched"], levels[METRIC, "unreadable"]) == (1, 0)
    assert levels[PROGRAMS, "unreadable"] == 1  # /usr/bin/dbus daemon is no file here
    status = driver.probe.status()
    assert status.state == "attached"
    assert status.detail == (
        "processes with watched libraries: 1; programs without a dynamic linker: "
        "unreadable: 1 (/usr/bin/dbus daemon)"
    )


@pytest.mark.parametrize(
    ("held", "state", "reason"),
    [(frozenset(), "degraded", "unreadable_processes"), ({"sys_ptrace"}, "attached", "")],
)
def test_processes_closed_to_us_are_a_fault_only_where_a_capability_would_open_them(
    driver: Driver,
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    held: frozenset[str],
    state: str,
    reason: str,
) -> None:
    machine.runs(20, [])
    monkeypatch.setattr("probes.libraries.watch.read_maps", refuse_unless_mine)
    privileges = capabilities.read_privileges()
    with_these = dataclasses.replace(privileges, effective=frozenset(held))
    monkeypatch.setattr(capabilities, "read_privileges", lambda: with_these)
    driver.watch.subscribe("libtorch_cpu.so").poll()
    status = driver.probe.status()
    assert (status.state, status.reason) == (state, reason)
    assert status.detail.endswith("processes that cannot be read: 1 (pid 20)")
    assert driver.levels()[METRIC, "unreadable"] == 1


def test_settings_reach_the_watch_and_without_one_there_is_nothing_to_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probe = LibrariesProbe()
    assert probe.status().state == "off"
    status = probe.start(ProbeOptions({"looks_per_poll": 7}), lambda reading: None)
    try:
        assert shared._limits[0].looks_per_poll == 7
    finally:
        shared.configure(Limits())
    assert status.state == "attached"
    probe.stop()
    assert (probe.status().state, probe.status().reason) == ("off", "stopped")
