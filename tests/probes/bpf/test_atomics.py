"""Atomic operations but addition need Linux 5.12, and the compiler makes some by itself."""

from __future__ import annotations

import struct

import pytest

from probes.bpf import bcc, headers
from probes.bpf.builder import Source
from probes.custom import probe
from tests.kernels.precompile import compile_source

STX_ATOMIC = frozenset({0xDB, 0xC3})


@pytest.mark.root
def test_programs_add_and_do_nothing_else_atomically() -> None:
    programs = {f"{word}_0": 2 for word in ("enter", "leave", "count")}
    source = Source(probe.SOURCE, programs, {"CUSTOM_PROBES": 1})
    answer = compile_source(bcc.request(source, str(headers.STUBS), bcc.stub_flags()))
    for name, program in answer["programs"].items():
        code = bytes.fromhex(program["code"])
        atomics = [
            imm for opcode, imm in struct.iter_unpack("=BxxxI", code) if opcode in STX_ATOMIC
        ]
        assert set(atomics) == {0}, name
