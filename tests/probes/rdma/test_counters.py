from __future__ import annotations

import pytest

from probes.rdma.counters import KNOWN, growth


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (5, 5, 0),
        (5, 9, 4),
        ((1 << 32) - 5, 5, 10),  # wrapped at 32 bits
        (100, 3, 3),  # reset: it fell, and no wrap explains it
        (3_000_000_000, 7, 7),  # reset: a wrap would mean a billion events
        ((1 << 40), 1, 1),  # a 64-bit counter that fell was reset
        ((1 << 32) - 1, (1 << 32) + 4, 5),  # a 64-bit counter goes on
    ],
)
def test_a_counter_that_fell_has_wrapped_or_was_reset(before: int, now: int, expected: int) -> None:
    assert growth(before, now) == expected


def test_no_two_files_of_a_port_are_named_alike_unless_they_mean_the_same() -> None:
    common = set(KNOWN["hw_counters"]) & set(KNOWN["counters"])
    for name in common:
        here, there = KNOWN["hw_counters"][name], KNOWN["counters"][name]
        assert (here.metric, here.cause) == (there.metric, there.cause)


@pytest.mark.parametrize(
    ("file", "cause"),
    [
        ("local_ack_timeout_err", "timeout"),
        ("to_retransmits", "timeout"),
        ("retrans_timeout_events", "timeout"),
        ("packet_seq_err", "sequence_nak"),
        ("missin_resp", "implied_nak"),
        ("RNR received", "rnr_nak"),
        ("completer_retry_err", "retry"),
    ],
)
def test_vendors_have_other_names_for_the_same_cause(file: str, cause: str) -> None:
    assert KNOWN["hw_counters"][file].cause == cause
