"""What the probes say beside what the job and CUPTI say: rows, verdicts, a table. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from probes.overhead.pairs import Ratio
    from tests.gpu.profile import Profile

# Calls of the runtime that PyTorch makes through the libcudart that it loads. Launches are not
# among them: cuBLAS has a runtime of its own inside, which CUPTI sees and a probe on libcudart
# does not.
COMPARED = (
    "cudaMemcpyAsync",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
    "cudaDeviceSynchronize",
    "cudaMalloc",
    "cudaFree",
)
LAUNCHES = (
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaLaunchCooperativeKernel",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuLaunchCooperativeKernel",
)
# The profiler synchronises when it begins and ends, after the probes' counts were read.
PROFILERS_OWN = 3


@dataclass(frozen=True, slots=True)
class Row:
    """A figure twice. `near`: the share by which they may differ, `slack`: the amount.

    `needed` False: it is shown, and does not decide.
    """

    what: str
    source: str
    truth: float
    probe: float
    near: float = 0.0
    slack: float = 0.0
    needed: bool = True

    @property
    def agrees(self) -> bool:
        """Whether the two are one."""
        return abs(self.truth - self.probe) <= self.near * abs(self.truth) + self.slack

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.truth == self.probe:
            return "equal"
        share = abs(self.truth - self.probe) / abs(self.truth) if self.truth else float("inf")
        word = "within" if self.agrees else "DIFFERS" if self.needed else "differs"
        return f"{word} ({share:.1%})" if share < float("inf") else word


def exact_rows(job: Mapping[str, Any], probe: Mapping[str, Mapping[str, float]]) -> Iterator[Row]:
    """Of the calls that were made one by one: everything must be equal."""
    calls, bytes_ = probe.get("cuda_calls_total", {}), probe.get("cuda_bytes_total", {})
    errors = probe.get("cuda_errors_total", {})
    for name, count in job["calls"].items():
        yield Row(f"{name}, calls", "job", count, calls.get(name, 0))
    for name, count in job["errors"].items():
        yield Row(f"{name}, errors", "job", count, errors.get(name, 0))
    for name, count in job["bytes"].items():
        yield Row(f"{name}, bytes", "job", count, bytes_.get(name, 0))


def memory_row(what: str, source: str, grown: float, before: float, after: float) -> Row:
    """How much more is held than before."""
    return Row(what, source, grown, after - before)


def profile_rows(profile: Profile, probe: Mapping[str, Mapping[str, float]]) -> Iterator[Row]:
    """Of steps under the profiler."""
    calls, seconds = probe.get("cuda_calls_total", {}), probe.get("cuda_call_seconds_sum", {})
    for name in COMPARED:
        counted = profile.calls.get(name, 0)
        if counted or calls.get(name):
            own = PROFILERS_OWN * name.endswith("Synchronize")
            yield Row(f"{name}, calls", "CUPTI", counted, calls.get(name, 0), 0.02, own)
    yield from _launch_rows(profile, calls)
    synchronises = [name for name in COMPARED if name.endswith("Synchronize")]
    told = sum(profile.seconds.get(name, 0.0) for name in synchronises)
    seen = sum(seconds.get(name, 0.0) for name in synchronises)
    # A trap lengthens what it measures by microseconds, and the profiler adds its own.
    yield Row("in synchronises, seconds", "CUPTI", told, seen, 0.1, 0.005)
    copied = _by_direction(probe.get("cuda_bytes_total", {}))
    for direction in ("h2d", "d2h"):
        truth = profile.bytes.get(direction, 0)
        if truth or copied.get(direction):
            yield Row(f"copied {direction}, bytes", "CUPTI", truth, copied.get(direction, 0), 0.01)


def _launch_rows(profile: Profile, calls: Mapping[str, float]) -> Iterator[Row]:
    runtime = [name for name in LAUNCHES if name.startswith("cuda")]
    driver = [name for name in LAUNCHES if not name.startswith("cuda")]
    told = sum(profile.calls.get(name, 0) for name in LAUNCHES)
    seen = sum(calls.get(name, 0) for name in driver)
    yield Row("launches, at the driver", "CUPTI", told, seen, 0.02)
    yield Row(
        "launches, at PyTorch's runtime",
        "CUPTI, all runtimes",
        sum(profile.calls.get(name, 0) for name in runtime),
        sum(calls.get(name, 0) for name in runtime),
        needed=False,
    )
    yield Row("kernels that ran", "CUPTI", profile.kernels, seen, 0.02, needed=False)


def _by_direction(bytes_: Mapping[str, float]) -> dict[str, float]:
    """Of the runtime's copies: the driver's are the same ones again."""
    found: dict[str, float] = {}
    for labels, count in bytes_.items():
        call, _, direction = labels.partition(" ")
        if call.startswith("cuda"):
            found[direction] = found.get(direction, 0.0) + count
    return found


def collective_rows(
    job: Mapping[str, Any], probe: Mapping[str, Mapping[str, float]]
) -> Iterator[Row]:
    """Of collectives that were asked for one by one."""
    for metric, truth in (("nccl_calls_total", job["calls"]), ("nccl_bytes_total", job["bytes"])):
        told = {_plain(name): count for name, count in probe.get(metric, {}).items()}
        for name, count in truth.items():
            yield Row(f"{name}, {metric}", "job", count, told.get(_plain(name), 0))


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def overhead_row(ratio: Ratio, limit: float) -> tuple[str, bool]:
    """Its line, and whether the upper bound is below the limit."""
    text = f"{ratio.value:.4f} ({ratio.low:.4f} to {ratio.high:.4f}, {ratio.pairs} pairs)"
    return text, ratio.high <= limit


def table(rows: Iterable[Row]) -> str:
    """All rows, aligned."""
    head = ("what", "source", "it says", "probes say", "verdict")
    cells = [head] + [
        (row.what, row.source, _figure(row.truth), _figure(row.probe), row.verdict) for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def _figure(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,.4f}"
