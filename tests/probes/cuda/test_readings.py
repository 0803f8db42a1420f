from __future__ import annotations

from engine.readings import Count, Process
from probes.cuda.readings import counts, slow_event
from probes.functions.records import BUCKETS, Slow, Total
from probes.functions.totals import SlowCall

ONE = Process(7, 100)
MILLISECOND = tuple(3 if bucket == 10 else 0 for bucket in range(BUCKETS))
COPIES = Total(
    hits=6, calls=3, timed=3, errors=1, sum=2_000_000, bytes_total=300, buckets=MILLISECOND
)


def test_a_copy_gives_calls_errors_bytes_by_direction_and_a_histogram() -> None:
    found = {
        (each.metric, *(value for _, value in each.labels)): each.delta
        for each in counts("cudaMemcpy h2d", ONE, COPIES)
        if isinstance(each, Count)
    }
    assert found["cuda_calls_total", "cudaMemcpy"] == 3
    assert found["cuda_errors_total", "cudaMemcpy"] == 1
    assert found["cuda_bytes_total", "cudaMemcpy", "h2d"] == 300
    assert found["cuda_call_seconds_sum", "cudaMemcpy"] == 0.002
    assert found["cuda_call_seconds_bucket", "cudaMemcpy", "0.0009765625"] == 3
    assert ("cuda_call_seconds_bucket", "cudaMemcpy", "0.000244140625") not in found


def test_the_weight_is_told_once() -> None:
    readings = [each for each in counts("cudaMemcpy h2d", ONE, COPIES) if isinstance(each, Count)]
    assert sum(each.weight for each in readings) == 6


def test_a_launch_has_calls_and_nothing_else() -> None:
    readings = list(counts("cudaLaunchKernel", ONE, Total(hits=5, calls=5)))
    assert readings == [
        Count("cuda_calls_total", ONE, 5.0, (("call", "cudaLaunchKernel"),), weight=5)
    ]


def test_the_bytes_of_an_allocation_are_no_bytes_copied() -> None:
    metrics = {each.metric for each in counts("cudaMalloc", ONE, COPIES) if isinstance(each, Count)}
    assert "cuda_bytes_total" not in metrics


def test_a_slow_call_has_the_fields_that_evidence_reads() -> None:
    record = Slow(10**9, 2 * 10**8, 7, 9, 1, 0, True, 4096, 0, 0)
    event = slow_event(SlowCall(ONE, "cudaMemcpy d2h", record), "python3")
    assert dict(event.fields) == {
        "comm": "python3",
        "lib": "cuda",
        "call": "cudaMemcpy",
        "seconds": 0.2,
        "tid": 9,
        "failed": 1,
        "direction": "d2h",
        "bytes": 4096,
    }
    assert event.weight == 1
