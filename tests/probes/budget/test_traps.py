"""What a trap costs: measured where it can be, assumed and said so where not."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from probes.bpf.errors import UnavailableError
from probes.budget import traps
from probes.budget.traps import TrapCosts, is_emulated, measure


@pytest.mark.parametrize(
    ("code", "emulated"),
    [
        ("55", True),  # push rbp
        ("4154", True),  # push r12
        ("90", True),  # nop
        ("e900000000", True),  # jmp
        ("0f8400000000", True),  # je
        ("f30f1efa", False),  # endbr64
        ("4883ec08", False),  # sub rsp, 8
        ("4889f8", False),  # mov rax, rdi
        ("c3", False),  # ret
        ("", False),
    ],
)
def test_on_x86_pushes_nops_and_jumps_are_emulated(code: str, emulated: bool) -> None:
    assert is_emulated(bytes.fromhex(code), "x86_64") == emulated


@pytest.mark.parametrize(
    ("word", "emulated"),
    [
        (0x14000001, True),  # b
        (0xD65F03C0, True),  # ret
        (0x34000040, True),  # cbz
        (0x10000000, True),  # adr
        (0xA9BF7BFD, False),  # stp x29, x30, [sp, #-16]!
        (0xD503233F, False),  # paciasp
    ],
)
def test_on_arm_branches_are_emulated(word: int, emulated: bool) -> None:
    assert is_emulated(word.to_bytes(4, "little"), "aarch64") == emulated


def test_an_unknown_machine_is_assumed_to_step() -> None:
    assert not is_emulated(b"\x55", "riscv64")


def test_an_entry_costs_what_its_first_instruction_makes_of_it() -> None:
    costs = TrapCosts(1e-6, 9e-6, 8e-6)
    assert costs.entry(b"\x55", "x86_64") == 1e-6
    assert costs.entry(b"\xf3\x0f\x1e\xfa", "x86_64") == 9e-6


def test_where_nothing_can_be_attached_the_cost_is_assumed_and_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise UnavailableError("no_uprobe", "no uprobe here")

    monkeypatch.setattr(traps, "_small_program", refuse)
    costs = traps._Costs()()
    assert not costs.measured
    assert costs.reason == "no uprobe here"
    assert costs.exit == traps.DEFAULT_SECONDS["exit"]
    assert "no uprobe here" in caplog.text


def test_a_probe_that_did_not_fire_is_no_free_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traps, "_small_program", lambda: traps._Program(-1, -1))
    monkeypatch.setattr(traps, "_attach", lambda *_: [])
    monkeypatch.setattr(traps, "_least", lambda *_: 1e-9)
    costs = measure()
    assert not costs.measured
    assert "did not fire" in costs.reason


def test_the_measurement_is_made_once_for_all_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[TrapCosts] = []

    def count() -> TrapCosts:
        made.append(TrapCosts())
        return made[-1]

    monkeypatch.setattr(traps, "measure", count)
    costs = traps._Costs()
    assert costs() is costs()
    assert len(made) == 1


def test_a_machine_that_was_busy_at_the_start_is_measured_again_and_the_least_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    answers = [
        TrapCosts(2e-6, 90e-6, 88e-6, measured=True),
        TrapCosts(3e-6, 9e-6, 10e-6, measured=True),
        TrapCosts(reason="no room"),
        TrapCosts(5e-6, 50e-6, 50e-6, measured=True),
    ]
    monkeypatch.setattr(traps, "measure", lambda: answers.pop(0))
    monkeypatch.setattr("probes.budget.traps.time.monotonic", lambda: now)
    costs = traps._Costs()
    assert costs().exit == 88e-6
    now += traps.FIRST_PAUSE_SECONDS - 1
    assert costs().exit == 88e-6
    now += 1
    assert costs() == TrapCosts(2e-6, 9e-6, 10e-6, measured=True)
    now += 2 * traps.FIRST_PAUSE_SECONDS
    assert costs() == TrapCosts(2e-6, 9e-6, 10e-6, measured=True)
    # A host may also become slower, for good: what is older than six hours counts no more.
    now += traps.MEASURE_EVERY_SECONDS
    assert costs() == TrapCosts(5e-6, 50e-6, 50e-6, measured=True)
    assert not answers


@pytest.mark.each_kernel
@pytest.mark.root
def test_traps_of_this_machine_are_measured_and_nothing_is_left() -> None:
    if os.geteuid() != 0:
        pytest.skip("uprobes need root")
    before = set(Path("/proc/self/fd").iterdir())
    costs = measure()
    if not costs.measured:
        pytest.skip(f"no uprobes here: {costs.reason}")
    assert min(costs.emulated, costs.stepped, costs.exit) >= traps.LEAST_SECONDS
    for thread in threading.enumerate():
        if thread.name == "calibration-end":
            thread.join(30)
    deadline = time.monotonic() + 5
    while set(Path("/proc/self/fd").iterdir()) - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not set(Path("/proc/self/fd").iterdir()) - before
