from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.alerts.wording import evidence_text

if TYPE_CHECKING:
    from engine.alerts.alert import EvidenceEntry


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            {
                "rank": "0", "pid": 17, "comm": "python", "src": "10.0.0.1", "sport": 40000,
                "dst": "fd00::2", "dport": 29500, "retransmits": 12, "first": 1.0, "last": 2.0,
            },
            "rank 0 python[17] 10.0.0.1:40000 → [fd00::2]:29500: 12 retransmits",
        ),
        (
            {"rank": "1", "pid": 18, "comm": "python", "call": "cudaMemcpy", "calls": 3},
            "rank 1 python[18]: call cudaMemcpy, calls 3",
        ),
        ({"rank": "2", "comm_wait_ratio": 0.912345678}, "rank 2: comm_wait_ratio 0.912346"),
        ({"rank": "", "pid": 9, "comm": "a\x1b[2J\nb", "retransmits": 1}, None),
    ],
)  # fmt: skip
def test_evidence_reads_as_one_line(entry: EvidenceEntry, expected: str | None) -> None:
    shown = evidence_text(entry)
    assert shown.isprintable()
    assert shown.startswith("no rank ") if expected is None else shown == expected
