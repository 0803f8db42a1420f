from __future__ import annotations

from pathlib import Path

import pytest

from probes.bpf.compiler import _refusal

WHERE = Path("probes/some_probe/program.bpf.c")


@pytest.mark.parametrize(
    ("error", "chatter", "compiled", "reason"),
    [
        (
            "Failed to compile BPF module <text>",
            "could not open bpf map: sw_produced, error: Operation not permitted\n",
            False,
            "missing_capability",
        ),
        ("Need super-user privileges to run", "", True, "missing_capability"),
        (
            "Failed to compile BPF module <text>",
            "program.bpf.c:3:1: error: unknown type name 'x'\n1 error generated.\n",
            False,
            "compile",
        ),
        (
            "Failed to load BPF program b'f': Invalid argument",
            "0: (79) r1 = *(u64 *)(r1 +34)\ninvalid bpf_context access off=34 size=8\n",
            True,
            "verifier",
        ),
    ],
)
def test_each_refusal_has_its_reason_and_carries_the_words_that_matter(
    error: str, chatter: str, compiled: bool, reason: str
) -> None:
    told = _refusal(WHERE, Exception(error), chatter, compiled=compiled)
    assert told.reason == reason
    assert "some_probe/program.bpf.c" in told.detail
    assert told.mend
    if reason in {"compile", "verifier"}:
        assert chatter.splitlines()[-2 if reason == "compile" else -1] in told.detail
