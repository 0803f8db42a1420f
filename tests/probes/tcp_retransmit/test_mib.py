from __future__ import annotations

import pytest

from probes.tcp_retransmit.mib import Namespaces, parse, read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TcpExt: A TCPLossProbes B\nTcpExt: 1 59 2\nIpExt: C\nIpExt: 3\n", 59),
        ("TcpExt: A B\nTcpExt: 1 2\n", None),
        ("", None),
    ],
)
def test_a_counter_is_found_by_its_name(text: str, expected: int | None) -> None:
    assert parse(text, "TcpExt").get("TCPLossProbes") == expected


def test_the_running_kernel_tells_both_files() -> None:
    found = read("self")
    assert found is not None
    assert {"RetransSegs", "OutSegs", "TCPLossProbes", "TCPTimeouts"} <= set(found)
    assert read(2**22 + 1) is None


def test_a_namespace_of_before_counts_from_its_baseline_and_a_new_one_from_zero() -> None:
    namespaces = Namespaces()
    namespaces.baseline(1, {"RetransSegs": 100})
    assert namespaces.grow(1, {"RetransSegs": 103}) == {"RetransSegs": 3}
    assert namespaces.grow(2, {"RetransSegs": 5}) == {"RetransSegs": 5}
    namespaces.keep({2})
    assert len(namespaces) == 1
    assert namespaces.grow(2, {"RetransSegs": 6}) == {"RetransSegs": 1}
