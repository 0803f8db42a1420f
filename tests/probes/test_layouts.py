"""Layouts of tracepoint records come from the kernel that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROBES = Path(__file__).resolve().parents[2] / "probes"
PROGRAMS = sorted([*PROBES.glob("*/*.bpf.c"), *PROBES.glob("*/*.h"), *PROBES.glob("bpf/words/*.h")])
# `ctx + 16`, `ctx + 0x10`, `ctx[2]`: a number where an offset from the format file belongs.
WRITTEN_DOWN = re.compile(r"\bctx\s*\+\s*\(?\s*(?:0x)?\d|\bctx\s*\[\s*\d")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_program_writes_an_offset_of_a_record_down(program: Path) -> None:
    code = COMMENT.sub("", program.read_text())
    assert WRITTEN_DOWN.findall(code) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("*(u32 *)(ctx + 8)", True),
        ("*(u32 *)(ctx + 0x10)", True),
        ("((u64 *)ctx)[2]", False),  # a raw tracepoint's argument, which is an interface
        ("ctx[1]", True),
        ("*(u32 *)(ctx + SKB_SPORT_OFFSET)", False),
    ],
)
def test_the_check_knows_an_offset_when_it_sees_one(line: str, found: bool) -> None:
    assert bool(WRITTEN_DOWN.search(line)) == found
