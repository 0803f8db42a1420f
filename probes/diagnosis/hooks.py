"""Findings about hooks that only some probes use, and about what a hook costs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from probes.bpf import capabilities
from probes.bpf.errors import UnavailableError
from probes.bpf.tracepoint import read_format
from probes.budget import traps
from probes.diagnosis.finding import Finding
from probes.process.cgroups import CgroupNames

if TYPE_CHECKING:
    from collections.abc import Iterator

DEVICES = Path("/dev")
# What a probe may cost a process by default, of one core.
_BUDGET = 0.01


def findings() -> Iterator[Finding]:
    """Kprobes, GPU device files, control groups, pids, and the price of a uprobe."""
    yield _kprobes()
    yield _gpu_driver()
    yield _signals()
    yield _control_groups()
    yield _pids()
    yield _price()


def _kprobes() -> Finding:
    if capabilities.kprobe_pmu() is None:
        return Finding("kprobes", "ok", "none, and not needed: tracepoints are used")
    return Finding("kprobes", "ok", "present: gpu_driver uses them where the driver is loaded")


def _gpu_driver() -> Finding:
    devices = sorted(DEVICES.glob("nvidia[0-9]*"))
    if devices:
        return Finding("GPU devices", "ok", f"{len(devices)}: {devices[0]} ...")
    return Finding(
        "GPU devices",
        "degraded",
        "no /dev/nvidia0: no GPU, or its driver is not loaded",
        "modprobe nvidia; in a container --gpus all, or run the agent on the host",
    )


def _signals() -> Finding:
    subject = "tracepoints of signals"
    try:
        read_format("signal", "signal_deliver").require("sig", "sa_handler")
        read_format("signal", "signal_generate").require("sig", "pid", "result")
        read_format("oom", "mark_victim").require("pid")
    except UnavailableError as error:
        detail = f"{error.detail}: program starts are counted, ends by a signal are not"
        return Finding(subject, "degraded", detail, error.mend)
    return Finding(subject, "ok", "ends by a signal and out-of-memory kills are told")


def _control_groups() -> Finding:
    subject = "control groups"
    if CgroupNames().known:
        return Finding(subject, "ok", "unified hierarchy: program starts are told by container")
    return Finding(
        subject,
        "degraded",
        "no unified hierarchy: program starts are counted for the node only",
        "boot with systemd.unified_cgroup_hierarchy=1",
    )


def _pids() -> Finding:
    if capabilities.sees_kernel_pids():
        return Finding("pids", "ok", "the kernel's pids are those of this pid namespace")
    return Finding(
        "pids",
        "degraded",
        "the kernel's pids mean other processes in this pid namespace: counts have no owner",
        "docker: --pid=host; Kubernetes: hostPID: true",
    )


def _price() -> Finding:
    """Only measured where uprobes can be had; the trial before says why not."""
    costs = traps.measure()
    if not costs.measured:
        return Finding("price of a uprobe", "degraded", f"not measured: {costs.reason}")
    counted = _BUDGET / costs.emulated
    timed = _BUDGET / (costs.emulated + costs.exit)
    return Finding(
        "price of a uprobe",
        "ok",
        f"entry {costs.emulated * 1e6:.1f} us, exit {costs.exit * 1e6:.1f} us: one per cent of a "
        f"core counts {counted:,.0f} calls a second, or times {timed:,.0f}",
    )
