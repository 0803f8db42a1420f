"""Findings about the kernel: BPF tried for real, layouts, capabilities."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING

from probes.bpf import capabilities, compiler, headers, syscall, tracefs
from probes.bpf.errors import UnavailableError
from probes.bpf.loader import ProgramType, load
from probes.bpf.tracepoint import read_format
from probes.bpf.trial import try_uprobe
from probes.diagnosis.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probes.bpf.capabilities import Privileges

_TRIAL = Path(__file__).with_name("trial.bpf.c")

# Tracepoint: fields without which it is of no use, and what is lost when it is absent.
_TRACEPOINTS = (
    ("tcp", "tcp_retransmit_skb", ("skaddr", "sport", "dport", "saddr_v6", "daddr_v6"), ""),
    (
        "sock",
        "inet_sock_set_state",
        ("skaddr", "oldstate", "newstate", "protocol"),
        "owners of connections are asked from sock_diag",
    ),
    (
        "sock",
        "sock_send_length",
        ("sk", "protocol", "ret"),
        "owners of accepted connections are asked from sock_diag",
    ),
    ("sched", "sched_process_exec", (), "the raw tracepoint is used"),
)


def findings() -> Iterator[Finding]:
    """Kernel, privileges, tracefs, tracepoints, bcc, BPF and uprobes, in that order."""
    privileges = capabilities.read_privileges()
    yield _kernel()
    yield from _privileges(privileges)
    yield _tracefs()
    for category, event, fields, loss in _TRACEPOINTS:
        yield _tracepoint(category, event, fields, loss)
    yield _bcc()
    yield _headers()
    yield _ring_buffer()
    yield from _trial()


def _kernel() -> Finding:
    release, machine = platform.release(), platform.machine()
    if machine not in {"x86_64", "aarch64"}:
        mend = "x86_64 and aarch64 are supported; pollers run everywhere"
        return Finding("kernel", "no", f"{release} on {machine}", mend)
    if syscall.kernel_release() < (4, 17):
        mend = "4.17 is the oldest kernel with raw tracepoints and the uprobe PMU"
        return Finding("kernel", "no", f"{release} on {machine}", mend)
    return Finding("kernel", "ok", f"{release} on {machine}")


def _privileges(privileges: Privileges) -> Iterator[Finding]:
    try:
        capabilities.require_bpf(privileges)
    except UnavailableError as error:
        yield Finding("privileges", "no", error.detail, error.mend)
    else:
        yield Finding("privileges", "ok", f"uid {privileges.uid}")
    needed = set(privileges.missing_for_tracepoints())
    everything = "sys_admin" in privileges.effective
    for name, purpose in capabilities.PURPOSES.items():
        subject = f"capability {name}"
        if name in privileges.effective:
            yield Finding(subject, "ok", purpose)
        elif name == "sys_resource" and privileges.kernel >= capabilities.NO_MEMLOCK:
            yield Finding(subject, "ok", f"no, and not needed: {purpose}")
        elif everything and name in {"bpf", "perfmon"}:
            yield Finding(subject, "ok", f"{purpose}: CAP_SYS_ADMIN stands for it")
        else:
            spelled = name.upper()
            mend = f"docker: --cap-add {spelled}; systemd: AmbientCapabilities=CAP_{spelled}"
            yield Finding(subject, "no" if name in needed else "degraded", f"no: {purpose}", mend)
    yield Finding(
        "seccomp", "ok", "a filter is active" if privileges.seccomp else "no filter is active"
    )
    yield Finding("lockdown", "ok", privileges.lockdown)


def _tracefs() -> Finding:
    try:
        return Finding("tracefs", "ok", str(tracefs.folder()))
    except UnavailableError as error:
        return Finding("tracefs", "no", error.detail, error.mend)


def _tracepoint(category: str, event: str, fields: tuple[str, ...], loss: str) -> Finding:
    subject = f"tracepoint {category}:{event}"
    try:
        layout = read_format(category, event)
        layout.require(*fields)
    except UnavailableError as error:
        detail = f"{error.detail}; {loss}" if loss else error.detail
        return Finding(subject, "degraded" if loss else "no", detail, error.mend)
    err = " err" if "err" in layout.fields else ""
    return Finding(
        subject, "ok", f"fields {' '.join(fields)}{err}" if fields else "no field needed"
    )


def _bcc() -> Finding:
    try:
        found = compiler.find_bcc()
        return Finding("bcc", "ok", f"{found.version} from {found.file}")
    except UnavailableError as error:
        return Finding("bcc", "no", error.detail, error.mend)


def _headers() -> Finding:
    found = headers.of_the_node()
    seen = f"{found}, if the stub tree does not do" if found else "absent, and not needed"
    return Finding("kernel headers", "ok", f"{seen}: a stub tree is shipped")


def _ring_buffer() -> Finding:
    if capabilities.has_ring_buffer():
        return Finding("ring buffer", "ok", "records cross by ring buffer")
    return Finding(
        "ring buffer", "degraded", "none, or refused: records cross by perf buffer where BPF runs"
    )


def _trial() -> Iterator[Finding]:
    """Load a program that does nothing, and attach it to a function that nobody calls."""
    try:
        loaded = load(_TRIAL, {"on_nothing": ProgramType.UPROBE})
    except UnavailableError as error:
        yield Finding("BPF programs", "no", error.detail, error.mend)
        yield Finding("uprobes", "no", "not tried: no BPF program can be loaded")
        return
    try:
        way = "; ".join([*map(str, loaded.left), loaded.step])
        yield Finding("BPF programs", "ok", f"one was compiled, verified and loaded ({way})")
        try_uprobe(loaded, "on_nothing")
        way = "the uprobe PMU" if capabilities.uprobe_pmu() is not None else "uprobe_events"
        yield Finding("uprobes", "ok", f"one was attached, by {way}")
    except UnavailableError as error:
        yield Finding("uprobes", "no", f"{error.detail}: no probe of a library", error.mend)
    finally:
        loaded.close()
