"""Connects, failed connects and resets by owner, as the kernel counts them. Pure.

Connect times are a classic histogram: every second one of the kernel's 28 powers of two.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING

from engine.readings import Count
from probes.tcp_retransmit.flow import User
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.readings import Pairs, Process

CONNECT_SECONDS = "tcp_connect_seconds"
FAILURES = "tcp_connect_failures_total"
RESETS = "tcp_resets_total"
STREAM = "connections"

_KEY = struct.Struct("=QIIQ")
_VALUE = struct.Struct("=QQ")
# Bucket k holds up to 2^(k - 20) s, the last one all that is longer.
BUCKETS = 28
_BOUNDS = tuple((bucket, repr(2.0 ** (bucket - 20))) for bucket in range(4, BUCKETS - 1, 2))

# The enum of program.bpf.c.
REASONS = {32: "refused", 33: "timed_out", 34: "unreachable", 35: "no_port", 36: "other"}
# Counted here, when no error followed the end of a connect.
ABANDONED = "abandoned"
DIRECTIONS = {48: "received", 49: "sent"}


@dataclass(frozen=True, slots=True)
class Tally:
    """How often something happened to one user's sockets. `seconds`: the sum of connect times."""

    user: User
    what: int
    count: int
    seconds: float = 0.0


def decode_key(raw: bytes) -> tuple[User, int]:
    """`struct tally_key`: who and what."""
    since, pid, _, what = _KEY.unpack(raw)
    return User(pid, since), what


def decode_value(raw: bytes) -> tuple[int, int]:
    """`struct tally`: (count, nanoseconds)."""
    count, nanoseconds = _VALUE.unpack(raw)
    return count, nanoseconds


def histogram_names() -> tuple[tuple[str, Pairs], ...]:
    """The series of the histogram, so that all of them begin with a 0."""
    bounds = [*(text for _, text in _BOUNDS), "+Inf"]
    rows: list[tuple[str, Pairs]] = [
        (f"{CONNECT_SECONDS}_bucket", (("le", text),)) for text in bounds
    ]
    return (*rows, (f"{CONNECT_SECONDS}_sum", ()), (f"{CONNECT_SECONDS}_count", ()))


def connect_counts(process: Process | None, tallies: list[Tally]) -> Iterator[Count]:
    """The histogram's growth from the tallies of one process that are buckets.

    Of None, who stands for all users that nobody knows, there may be many of each bucket.
    """
    by_bucket: Counter[int] = Counter()
    for tally in tallies:
        if tally.what < BUCKETS:
            by_bucket[tally.what] += tally.count
    total = sum(by_bucket.values())
    if not total:
        return
    for bucket, text in _BOUNDS:
        below = sum(count for at, count in by_bucket.items() if at <= bucket)
        if below:
            yield Count(f"{CONNECT_SECONDS}_bucket", process, float(below), (("le", text),))
    yield Count(f"{CONNECT_SECONDS}_bucket", process, float(total), (("le", "+Inf"),))
    seconds = sum(tally.seconds for tally in tallies if tally.what < BUCKETS)
    yield Count(f"{CONNECT_SECONDS}_sum", process, seconds)
    yield Count(f"{CONNECT_SECONDS}_count", process, float(total), weight=total, stream=STREAM)


def other_counts(process: Process | None, tallies: list[Tally]) -> Iterator[Count]:
    """Failures and resets among the tallies of one process."""
    for tally in tallies:
        if tally.what in REASONS:
            metric, labels = FAILURES, (("reason", REASONS[tally.what]),)
        elif tally.what in DIRECTIONS:
            metric, labels = RESETS, (("direction", DIRECTIONS[tally.what]),)
        else:
            continue
        yield Count(metric, process, float(tally.count), labels, weight=tally.count, stream=STREAM)
