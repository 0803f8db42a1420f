"""The page of machine code: what lies at the traps, by a disassembler's word."""

from __future__ import annotations

import platform
from pathlib import Path

import capstone
import pytest

from probes.budget.page import (
    _FUNCTION_AT,
    _ROUTINE_BYTES,
    ARM64,
    KINDS,
    X86_64,
    Architecture,
    CodePage,
    assemble,
)

DISASSEMBLERS = {
    "x86-64": (X86_64, capstone.CS_ARCH_X86, capstone.CS_MODE_64),
    "arm64": (ARM64, capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
}


def disassemble(name: str, code: bytes, address: int) -> list[str]:
    _, arch, mode = DISASSEMBLERS[name]
    found = capstone.Cs(arch, mode).disasm(code, address)
    return [f"{each.mnemonic} {each.op_str}".strip() for each in found]


@pytest.mark.parametrize(
    ("name", "kind", "instruction"),
    [
        ("x86-64", "emulated", "push rbp"),
        ("x86-64", "stepped", "sub rsp, 8"),
        ("x86-64", "exit", "ret"),
        ("arm64", "emulated", "b #4"),
        ("arm64", "stepped", "mov x1, x0"),
        ("arm64", "exit", "ret"),
    ],
)
def test_each_kind_traps_at_its_instruction(name: str, kind: str, instruction: str) -> None:
    body, at = DISASSEMBLERS[name][0].bodies[kind]  # type: ignore[index]
    assert disassemble(name, body[at:], 0)[0] == instruction


@pytest.mark.parametrize("name", DISASSEMBLERS)
def test_each_routine_calls_the_function_beside_it_until_nothing_is_left(name: str) -> None:
    architecture: Architecture = DISASSEMBLERS[name][0]
    page = assemble(architecture)
    for index, kind in enumerate(KINDS):
        start = index * _ROUTINE_BYTES
        loop = disassemble(name, page[start : start + len(architecture.loop)], start)
        target = f"{start + _FUNCTION_AT:#x}"
        called = [each for each in loop if each.startswith(("call", "bl"))]
        assert [each.split()[1].lstrip("#") for each in called] == [target], kind
        assert loop[-1] == "ret"
        body = architecture.bodies[kind][0]
        assert disassemble(name, body, 0)[-1] == "ret"


@pytest.mark.skipif(platform.machine() not in {"x86_64", "aarch64"}, reason="code of two machines")
def test_the_page_runs_here_and_leaves_no_file_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    page = CodePage()
    for kind in KINDS:
        page.runner(kind)(1000)
    page.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
