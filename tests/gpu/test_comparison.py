from __future__ import annotations

from probes.overhead.pairs import Ratio
from tests.gpu.comparison import (
    Row,
    collective_rows,
    exact_rows,
    memory_row,
    overhead_row,
    profile_rows,
    table,
)
from tests.gpu.profile import Profile

JOB = {
    "calls": {"cudaMalloc": 24},
    "errors": {"cudaMemcpy": 5},
    "bytes": {"cudaMemcpy h2d": 1000},
}
SEEN = {
    "cuda_calls_total": {"cudaMalloc": 24.0, "cuMemAlloc": 24.0},
    "cuda_errors_total": {"cudaMemcpy": 5.0},
    "cuda_bytes_total": {"cudaMemcpy h2d": 1000.0},
}


def test_calls_made_one_by_one_agree_only_when_they_are_equal() -> None:
    assert [row.verdict for row in exact_rows(JOB, SEEN)] == ["equal"] * 3
    short = {**SEEN, "cuda_calls_total": {"cudaMalloc": 23.0}}
    rows = list(exact_rows(JOB, short))
    assert [row.agrees for row in rows] == [False, True, True]
    assert rows[0].verdict == "DIFFERS (4.2%)"


def test_what_the_probes_did_not_see_at_all_differs() -> None:
    assert not any(row.agrees for row in exact_rows(JOB, {}))


def test_the_profilers_own_synchronises_are_allowed_for() -> None:
    told = Profile(calls={"cudaDeviceSynchronize": 102, "cudaMemcpyAsync": 200})
    seen = {"cuda_calls_total": {"cudaDeviceSynchronize": 100.0, "cudaMemcpyAsync": 190.0}}
    rows = {row.what: row for row in profile_rows(told, seen)}
    assert rows["cudaDeviceSynchronize, calls"].verdict == "within (2.0%)"
    assert not rows["cudaMemcpyAsync, calls"].agrees


def test_launches_are_held_against_the_driver_since_cublas_has_a_runtime_of_its_own() -> None:
    told = Profile(calls={"cudaLaunchKernel": 900, "cuLaunchKernelEx": 100}, kernels=1000)
    seen = {"cuda_calls_total": {"cudaLaunchKernel": 500.0, "cuLaunchKernel": 1000.0}}
    rows = {row.what: row for row in profile_rows(told, seen)}
    assert rows["launches, at the driver"].agrees
    runtime = rows["launches, at PyTorch's runtime"]
    assert (runtime.truth, runtime.probe, runtime.needed) == (900, 500, False)
    assert runtime.verdict == "differs (44.4%)"


def test_time_in_synchronises_may_differ_by_a_tenth() -> None:
    told = Profile(seconds={"cudaStreamSynchronize": 1.0, "cudaMemcpyAsync": 50.0})
    for seconds, agrees in ((1.05, True), (0.8, False), (1.2, False)):
        seen = {"cuda_call_seconds_sum": {"cudaStreamSynchronize": seconds}}
        (row,) = [r for r in profile_rows(told, seen) if r.what.startswith("in synchronises")]
        assert row.agrees is agrees


def test_bytes_are_those_of_the_runtimes_copies_and_not_the_drivers_once_more() -> None:
    told = Profile(bytes={"h2d": 1000})
    seen = {"cuda_bytes_total": {"cudaMemcpyAsync h2d": 1000.0, "cuMemcpyHtoDAsync h2d": 1000.0}}
    (row,) = [row for row in profile_rows(told, seen) if row.what.startswith("copied")]
    assert row.verdict == "equal"


def test_collectives_are_found_however_their_names_are_spelt() -> None:
    job = {"calls": {"all_reduce": 25}, "bytes": {"all_reduce": 100}}
    seen = {"nccl_calls_total": {"AllReduce": 25.0}, "nccl_bytes_total": {"AllReduce": 100.0}}
    assert all(row.agrees for row in collective_rows(job, seen))


def test_memory_is_compared_by_its_growth() -> None:
    assert memory_row("held", "job", 64.0, 100.0, 164.0).agrees
    assert not memory_row("held", "job", 64.0, 100.0, 160.0).agrees


def test_the_upper_bound_of_the_overhead_decides() -> None:
    assert overhead_row(Ratio(1.001, 0.99, 1.009, 6), 1.01)[1]
    text, kept = overhead_row(Ratio(1.001, 0.99, 1.02, 6), 1.01)
    assert not kept
    assert text == "1.0010 (0.9900 to 1.0200, 6 pairs)"


def test_a_table_has_a_line_a_row_and_aligned_columns() -> None:
    lines = table([Row("a", "job", 1000, 1000), Row("longer", "CUPTI", 0.5, 0.25)]).splitlines()
    assert lines == [
        "what    source  it says  probes say  verdict",
        "a       job     1,000    1,000       equal",
        "longer  CUPTI   0.5000   0.2500      DIFFERS (50.0%)",
    ]
