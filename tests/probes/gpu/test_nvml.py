"""NVML's answers, from a stand-in binding written here: no GPU is involved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.readings import Level, ProbeOptions, Process, Reading
from probes.gpu.nvml import GpuSample, Nvml, NvmlError
from probes.gpu.probe import GpuProbe, levels
from probes.gpu.sampler import GpuMean, Sampler


class BindingError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class Binding:
    """pynvml as far as it is used; a utilisation that is an exception is raised."""

    NVMLError = BindingError

    def __init__(self, *gpus: tuple[Any, list[int]], init: int = 0) -> None:
        self.gpus = gpus
        self.init = init

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
        if self.init:
            raise BindingError(self.init)

    def nvmlShutdown(self) -> None:  # noqa: N802
        raise BindingError(1)

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return f"GPU-{handle}"

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        utilization = self.gpus[handle][0]
        if isinstance(utilization, BindingError):
            raise utilization
        return SimpleNamespace(gpu=utilization)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=pid) for pid in self.gpus[handle][1]]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        raise BindingError(3)


def probe_of(binding: Binding) -> tuple[GpuProbe, list[Reading]]:
    readings: list[Reading] = []
    probe = GpuProbe(Sampler(lambda: Nvml(binding), sample_seconds=3600))
    probe.start(ProbeOptions(), readings.append)
    probe.collect()
    probe.stop()
    return probe, readings


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (9, "driver_absent"),
        (12, "library_absent"),
        (18, "driver_mismatch"),
        (4, "no_permission"),
        (999, "nvml_error"),
    ],
)
def test_an_nvml_that_does_not_open_is_a_probe_that_is_off_for_a_reason(
    number: int, reason: str
) -> None:
    probe = GpuProbe(Sampler(lambda: Nvml(Binding(init=number)), sample_seconds=3600))
    status = probe.start(ProbeOptions(), lambda _: None)
    probe.collect()
    probe.stop()
    assert (status.state, status.reason) == ("off", reason)
    assert status.mend


def test_a_driver_that_leaves_while_the_agent_runs_degrades_the_probe_and_may_come_back() -> None:
    answers = [Binding((40, [])), Binding(init=9), Binding((60, []))]
    sampler = Sampler(lambda: Nvml(answers.pop(0)), sample_seconds=3600)
    probe = GpuProbe(sampler)
    readings: list[Reading] = []
    assert probe.start(ProbeOptions(), readings.append).state == "attached"
    sampler._ask(None)
    assert (probe.status().state, probe.status().reason) == ("degraded", "driver_absent")
    sampler._ask(None)
    probe.collect()
    assert probe.status().state == "attached"
    probe.stop()
    assert [each.value for each in readings if isinstance(each, Level)] == [50.0]


def test_a_partitioned_gpu_degrades_the_probe_and_the_others_are_read() -> None:
    binding = Binding((BindingError(3), [1]), (40, []))
    readings: list[Reading] = []
    probe = GpuProbe(Sampler(lambda: Nvml(binding), sample_seconds=3600))
    probe.start(ProbeOptions(), readings.append)
    probe.collect()
    status = probe.status()
    probe.stop()
    assert (status.state, status.reason) == ("degraded", "mig")
    assert readings == [
        Level("gpu_utilization", None, 40.0, (("gpu", "1"), ("uuid", "GPU-1"))),
    ]


def test_a_gpu_without_a_process_belongs_to_the_node() -> None:
    _, readings = probe_of(Binding((0, [])))
    assert [(each.process, each.value) for each in readings if isinstance(each, Level)] == [
        (None, 0.0)
    ]


def test_a_shared_gpu_has_a_level_per_process_and_unseen_pids_are_left_out() -> None:
    known = {7: Process(7, 70), 8: Process(8, 80)}
    gpu = GpuMean(0, "GPU-0")
    gpu.add(GpuSample(0, "GPU-0", 50.0, (7, 8, 9)))
    assert [each.process for each in levels(gpu, known.get)] == [known[7], known[8]]
    gpu.add(GpuSample(0, "GPU-0", 50.0, (9,)))
    assert [each.process for each in levels(gpu, known.get)] == [None]


def test_the_level_is_the_mean_of_the_samples_of_the_interval() -> None:
    gpu = GpuMean(0, "GPU-0")
    for utilization in (100.0, None, 20.0):
        gpu.add(GpuSample(0, "GPU-0", utilization))
    assert gpu.utilization == 60.0


def test_a_driver_that_leaves_is_an_nvml_error() -> None:
    nvml = Nvml(Binding((1, [])))
    nvml.close()

    def gone() -> int:
        raise BindingError(15)

    nvml._nvml.nvmlDeviceGetCount = gone
    with pytest.raises(NvmlError) as caught:
        nvml.read()
    assert caught.value.reason == "gpu_lost"


def test_without_the_library_of_the_driver_nothing_is_raised() -> None:
    pynvml = pytest.importorskip("pynvml")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        status = GpuProbe(Sampler(sample_seconds=3600)).start(ProbeOptions(), lambda _: None)
        assert status.state == "off"
        assert status.reason in {"library_absent", "driver_absent"}
    else:
        pytest.skip("this machine has an NVIDIA driver")
