"""Your own probes on a compiled library, from the YAML of the README to readings."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
import yaml

from engine.readings import Count, Event, Level, ProbeOptions, Process, Watched
from probes.custom.probe import CustomProbe
from probes.custom.report import CustomReport
from probes.custom.settings import CustomSettings
from probes.custom.slots import plan
from probes.functions.records import Total
from probes.functions.totals import Calls, Look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.readings import Reading

HERE = Path(__file__).parent
ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "probes/custom/README.md"


class Job:
    """The writer, and the custom probe watching it."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.readings: list[Reading] = []
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen([folder / "writer"], text=True, **pipes)  # type: ignore[call-overload]
        self.pid = int(self.process.stdout.readline())
        self.probe = CustomProbe()
        self.status = self.probe.start(ProbeOptions(settings), self.readings.append)

    def write(self, *numbers: int) -> None:
        self.process.stdin.write(" ".join(map(str, numbers)) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def flush(self) -> list[Reading]:
        self.probe.poll()
        self.probe.collect()
        mine = [each for each in self.readings if getattr(each, "process", None) is not None
                and each.process.pid == self.pid]  # type: ignore[union-attr]  # fmt: skip
        self.readings.clear()
        return mine

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.probe.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("custom")
    library = folder / "libckpt.so"
    subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-o", library, HERE / "ckpt.c"], check=True
    )
    linked = [HERE / "writer.c", library, f"-Wl,-rpath,{folder}", "-o", folder / "writer"]
    subprocess.run([compiler, "-O1", *map(str, linked)], check=True)
    return folder


@pytest.fixture
def run(folder: Path) -> Iterator[Callable[[dict[str, Any]], Job]]:
    jobs: list[Job] = []

    def start(settings: dict[str, Any]) -> Job:
        jobs.append(Job(folder, settings))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()


def example() -> dict[str, Any]:
    """`probes: custom:` of the README."""
    (block,) = re.findall(r"^```yaml\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    section: dict[str, Any] = yaml.safe_load(block)["probes"]["custom"]
    return section


def sums(readings: list[Reading]) -> Counter[tuple[str, tuple[tuple[str, str], ...]]]:
    totals: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
    for each in readings:
        if isinstance(each, Count):
            totals[each.metric, each.labels] += each.delta  # type: ignore[assignment]
    return totals


@pytest.mark.root
@pytest.mark.each_kernel
def test_the_example_of_the_readme_counts_times_and_sums(
    run: Callable[[dict[str, Any]], Job],
) -> None:
    settings = example()
    settings["probes"][0]["slow"] = "200ms"
    job = run(settings)
    assert (job.status.state, job.status.reason) == ("attached", ""), job.status.detail
    (watched,) = [each for each in job.flush() if isinstance(each, Watched)]
    full, delta, other = ((("kind", kind), ("tier", "disk")) for kind in ("full", "delta", "other"))
    assert {
        ("checkpoint_writes_total", full),
        ("checkpoint_written_bytes_total", delta),
        ("checkpoint_write_seconds_bucket", (*other, ("le", "+Inf"))),
        ("checkpoint_write_size_count", full),
    } <= set(watched.metrics)
    job.write(100, 0, 1 << 20, 0)
    job.write(20, 0, 5, 1)
    job.write(3, 300_000, 7, 9)
    readings = job.flush()
    totals = sums(readings)
    for labels, calls, size in ((full, 100, 1 << 20), (delta, 20, 5), (other, 3, 7)):
        assert totals["checkpoint_writes_total", labels] == calls
        assert totals["checkpoint_write_seconds_count", labels] == calls
        assert totals["checkpoint_written_bytes_total", labels] == calls * size
        assert totals["checkpoint_write_size_sum", labels] == calls * size
        assert totals["checkpoint_write_size_bucket", (*labels, ("le", "+Inf"))] == calls
    assert totals["checkpoint_write_size_bucket", (*delta, ("le", "16.0"))] == 20
    assert totals["checkpoint_write_size_bucket", (*delta, ("le", "1.0"))] == 0
    assert totals["checkpoint_write_seconds_sum", other] >= 0.9
    sizes = {each.labels: each.value for each in readings if isinstance(each, Level)
             and each.metric == "checkpoint_last_size_bytes"}  # fmt: skip
    assert sizes == {full: 1 << 20, delta: 5, other: 7}
    slow = [each for each in readings if isinstance(each, Event)]
    assert len([e for e in slow if dict(e.fields)["kind"] == "other"]) == 3
    weight = sum(each.weight for each in readings if isinstance(each, Count))
    assert weight == 2 * 123 == dict(job.probe.produced().produced)[""]


@pytest.mark.root
def test_a_count_alone_is_one_trap_a_call_and_an_int_keeps_its_sign(
    run: Callable[[dict[str, Any]], Job],
) -> None:
    level = {
        "name": "level",
        "library": "libckpt.so",
        "symbol": "ckpt_l*",
        "metrics": [
            {"name": "ckpt_levels_total", "take": "count"},
            {"name": "ckpt_level", "take": "value", "argument": 1, "type": "int"},
        ],
    }
    job = run({"probes": [level]})
    job.flush()
    job.write(50, 0, 1, 3)
    readings = job.flush()
    assert sums(readings)["ckpt_levels_total", ()] == 50
    assert [each.value for each in readings if isinstance(each, Level)
            and each.metric == "ckpt_level"] == [-3.0]  # fmt: skip
    assert dict(job.probe.produced().produced)[""] == 50


def test_the_last_value_of_a_process_that_nobody_watches_is_told_once() -> None:
    level = {"name": "size", "library": "libc.so", "symbol": "write", "metrics": [
        {"name": "last_size", "take": "value", "argument": 3, "type": "size_t"}]}  # fmt: skip
    probes = CustomSettings.model_validate({"probes": [level]}).probes
    planned = plan(probes)
    [name] = [slot.name for slot in planned.slots if slot.argument is not None]
    watched, forked = Process(7, 1), Process(8, 2)
    followed: Any = Mock(watch=Mock(processes=(watched,)))
    report = CustomReport(followed, probes=probes, plan=planned)
    calls = tuple(Calls(each, name, Total(last=5)) for each in (watched, forked))
    assert list(report.counts(Look(0, calls, ()))) == []
    told = [[each.process for each in report.levels(Look(0, (), ()))] for _ in range(2)]
    assert told == [[watched, forked], [watched]]


@pytest.mark.root
@pytest.mark.parametrize(
    ("change", "reason", "detail", "mend"),
    [
        ({"library": "libckptt.so"}, "library_absent", "checkpoint: no running", "libckpt.so"),
        ({"symbol": "ckpt_wirte"}, "symbol_missing", "it has no ckpt_wirte", "ckpt_write"),
        ({"symbol": "ckpt_table"}, "not_a_function", "ckpt_table is data", ""),
        ({"symbol": "ckpt_*", "most": 1}, "too_many_functions", "2 functions, more than 1", ""),
    ],
)
def test_what_cannot_be_probed_says_why_and_what_was_meant(
    run: Callable[[dict[str, Any]], Job], change: dict[str, Any],
    reason: str, detail: str, mend: str,
) -> None:  # fmt: skip
    settings = example()
    settings["probes"][0].update(change)
    job = run(settings)
    status = job.probe.status()
    assert (status.state, status.reason) == ("degraded", reason)
    assert detail in status.detail
    assert mend in status.mend


def test_without_probes_of_your_own_it_is_off() -> None:
    probe = CustomProbe()
    status = probe.start(ProbeOptions(), print)
    assert (status.state, status.reason) == ("off", "disabled")
    probe.poll()
    probe.collect()
    probe.stop()
