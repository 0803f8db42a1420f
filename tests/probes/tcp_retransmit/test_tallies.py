"""What the kernel counted by owner becomes a histogram and counters."""

from __future__ import annotations

import struct

from engine.readings import Count, Process
from probes.tcp_retransmit.flow import User
from probes.tcp_retransmit.tallies import (
    CONNECT_SECONDS,
    STREAM,
    Tally,
    connect_counts,
    decode_key,
    decode_value,
    histogram_names,
    other_counts,
)

ME = Process(10, 100)
USER = User(10, 99_000)


def test_a_tally_is_decoded_field_by_field() -> None:
    assert decode_key(struct.pack("=QIIQ", 99_000, 10, 0, 33)) == (USER, 33)
    assert decode_value(struct.pack("=QQ", 3, 1500)) == (3, 1500)


def test_buckets_add_up_to_a_classic_histogram() -> None:
    # Bucket 10 holds up to 2^-10 s, bucket 27 what took longer than a minute.
    tallies = [Tally(USER, 10, 3, 0.002), Tally(USER, 11, 1, 0.0015), Tally(USER, 27, 1, 70.0)]
    counts = {(c.metric, c.labels): c.delta for c in connect_counts(ME, tallies)}
    bucket = "tcp_connect_seconds_bucket"
    assert (bucket, (("le", "0.000244140625"),)) not in counts
    assert counts[bucket, (("le", "0.0009765625"),)] == 3
    assert counts[bucket, (("le", "0.00390625"),)] == 4
    assert counts[bucket, (("le", "64.0"),)] == 4
    assert counts[bucket, (("le", "+Inf"),)] == 5
    assert counts["tcp_connect_seconds_count", ()] == 5
    assert counts["tcp_connect_seconds_sum", ()] == 70.0035
    assert set(counts) <= set(histogram_names())


def test_each_connect_failure_and_reset_weighs_once() -> None:
    tallies = [Tally(USER, 5, 2, 0.1), Tally(USER, 32, 4), Tally(USER, 49, 1)]
    counts = [*connect_counts(ME, tallies), *other_counts(ME, tallies)]
    assert sum(c.weight for c in counts if c.stream == STREAM) == 7
    assert list(other_counts(ME, tallies)) == [
        Count(
            "tcp_connect_failures_total", ME, 4.0, (("reason", "refused"),), weight=4, stream=STREAM
        ),
        Count("tcp_resets_total", ME, 1.0, (("direction", "sent"),), weight=1, stream=STREAM),
    ]


def test_users_that_nobody_knows_count_together_in_each_bucket() -> None:
    strangers = [Tally(User(pid, 7), 10, pid, 0.5) for pid in (1, 2, 3)]
    counts = {(c.metric, c.labels): c for c in connect_counts(None, strangers)}
    assert counts[f"{CONNECT_SECONDS}_count", ()].delta == 6
    assert counts[f"{CONNECT_SECONDS}_count", ()].weight == 6
    assert counts[f"{CONNECT_SECONDS}_sum", ()].delta == 1.5


def test_nothing_was_connected_so_there_is_no_histogram() -> None:
    assert list(connect_counts(ME, [Tally(USER, 32, 4)])) == []
