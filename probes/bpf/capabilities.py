"""What this process may do: capabilities one by one, user namespace, lockdown, seccomp."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import resource
from dataclasses import dataclass
from pathlib import Path

from probes.bpf import syscall
from probes.bpf.errors import UnavailableError

# Bit numbers of include/uapi/linux/capability.h; only those that change what a probe can do.
_BITS = {
    "dac_override": 1,
    "dac_read_search": 2,
    "sys_ptrace": 19,
    "sys_admin": 21,
    "sys_resource": 24,
    "perfmon": 38,
    "bpf": 39,
}
NO_MEMLOCK = (5, 11)  # from here on BPF memory is charged to the cgroup
BPF_CAPABILITIES = (5, 8)  # the kernel that split bpf and perfmon from sys_admin

PURPOSES = {
    "bpf": "load BPF programs",
    "perfmon": "attach them to tracepoints",
    "sys_admin": "attach uprobes before kernel 6.6, enter other network namespaces",
    "dac_read_search": "read tracefs when it is closed to others",
    "sys_ptrace": "see the maps and files of other users' processes",
    "sys_resource": "lift the locked-memory limit on kernels before 5.11",
    "dac_override": "write uprobe_events where the uprobe PMU is missing",
}

MEND_OTHERS = "run as root, or add CAP_SYS_PTRACE (docker: --cap-add SYS_PTRACE)"


def parse_capabilities(hexadecimal: str) -> frozenset[str]:
    """Names of the set bits in a mask as /proc/PID/status prints it."""
    mask = int(hexadecimal, 16)
    return frozenset(name for name, bit in _BITS.items() if mask >> bit & 1)


@dataclass(frozen=True, slots=True)
class Privileges:
    """The present process's means. `lockdown`: none, integrity, confidentiality or unknown."""

    uid: int
    effective: frozenset[str]
    initial_user_namespace: bool
    seccomp: bool
    lockdown: str
    kernel: tuple[int, int]

    def missing_for_tracepoints(self) -> tuple[str, ...]:
        """Capabilities still needed to load and attach programs to tracepoints."""
        if "sys_admin" in self.effective:
            return ()
        if self.kernel < BPF_CAPABILITIES:
            return ("sys_admin",)
        return tuple(name for name in ("bpf", "perfmon") if name not in self.effective)


def parse_status(text: str) -> dict[str, str]:
    """Fields of /proc/PID/status by name."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def parse_lockdown(text: str) -> str:
    """The bracketed word of /sys/kernel/security/lockdown: `[none] integrity confidentiality`."""
    return text.partition("[")[2].partition("]")[0] or "unknown"


def _read(path: str, default: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        if error.errno in {errno.EMFILE, errno.ENFILE}:
            raise  # says nothing of what is permitted
        return default


def read_privileges() -> Privileges:
    """Look at this process and this kernel."""
    status = parse_status(_read("/proc/self/status", ""))
    return Privileges(
        uid=os.geteuid(),
        effective=parse_capabilities(status.get("CapEff", "0")),
        initial_user_namespace=_read("/proc/self/uid_map", "").split() == ["0", "0", "4294967295"],
        seccomp=status.get("Seccomp", "0") != "0",
        lockdown=parse_lockdown(_read("/sys/kernel/security/lockdown", "")),
        kernel=syscall.kernel_release(),
    )


def require_bpf(privileges: Privileges) -> None:
    """Raises UnavailableError when programs cannot be loaded and attached to tracepoints."""
    missing = privileges.missing_for_tracepoints()
    if missing and privileges.uid != 0:
        raise UnavailableError(
            "no_root",
            f"BPF needs {_spell(missing)}; this is uid {privileges.uid} without",
            "run as root (sudo stallwatch run), or give the service AmbientCapabilities=",
        )
    if missing:
        raise UnavailableError(
            "missing_capability",
            f"root, but without {_spell(missing)}: root in a container is not root on the host",
            "docker: "
            + " ".join(f"--cap-add {name.upper()}" for name in missing)
            + "; Kubernetes: securityContext.capabilities.add"
            + f" [{', '.join(name.upper() for name in missing)}], or run the agent on the host",
        )
    if not privileges.initial_user_namespace:
        raise UnavailableError(
            "missing_capability",
            "the capabilities are of a user namespace, which the kernel does not accept for BPF",
            "run the agent outside the user namespace (docker: --userns=host)",
        )
    if privileges.lockdown == "confidentiality":
        raise UnavailableError(
            "lockdown",
            "the kernel is locked down (confidentiality), which forbids BPF",
            "boot with lockdown=integrity or without lockdown",
        )


def _spell(names: tuple[str, ...]) -> str:
    return " and ".join(f"CAP_{name.upper()}" for name in names)


def explain_refusal(error: OSError, privileges: Privileges) -> UnavailableError:
    """Why the kernel refused though the capabilities seemed to be there."""
    if error.errno in {errno.EPERM, errno.EACCES} and privileges.seccomp:
        return UnavailableError(
            "missing_capability",
            f"the kernel refused ({error.strerror}) and a seccomp filter is active",
            "docker: --security-opt seccomp=unconfined; Kubernetes: seccompProfile: Unconfined",
        )
    if error.errno in {errno.EPERM, errno.EACCES}:
        return UnavailableError(
            "missing_capability", f"the kernel refused: {error.strerror}", "run as root on the host"
        )
    return UnavailableError("attach_failed", f"the kernel refused: {error.strerror}")


@functools.cache
def has_ring_buffer() -> bool:
    """Whether the kernel has BPF ring buffers (5.8): tried, because distributions backport."""
    try:
        os.close(syscall.map_create(syscall.MAP_TYPE_RINGBUF, 0, 0, os.sysconf("SC_PAGE_SIZE")))
    except OSError:
        return False
    return True


@functools.cache
def lift_locked_memory() -> None:
    """Before 5.11 maps and rings are locked memory of the process, of which 64 KiB are allowed.

    Needs CAP_SYS_RESOURCE; without it rings stay as they are.
    """
    if syscall.kernel_release() < NO_MEMLOCK:
        with contextlib.suppress(OSError, ValueError):
            unlimited = resource.RLIM_INFINITY
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (unlimited, unlimited))


@functools.cache
def uprobe_pmu() -> int | None:
    """Type number of the uprobe PMU (kernel 4.17), None where there is none."""
    text = _read("/sys/bus/event_source/devices/uprobe/type", "")
    return int(text) if text.isdigit() else None


def kprobe_pmu() -> int | None:
    """Type number of the kprobe PMU (kernel 4.17), None where there is none, or no kprobes."""
    text = _read("/sys/bus/event_source/devices/kprobe/type", "")
    return int(text) if text.isdigit() else None


def has_uprobe_multi() -> bool:
    """Whether one link may hold uprobes at many offsets of a file (6.6)."""
    return syscall.kernel_release() >= (6, 6)


def has_probe_read_kernel() -> bool:
    """Whether programs may call bpf_probe_read_kernel (5.5)."""
    return syscall.kernel_release() >= (5, 5)


# The initial pid namespace has this inode number on every kernel (PROC_PID_INIT_INO,
# include/linux/proc_ns.h).
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC


def sees_kernel_pids() -> bool:
    """Whether pids mean the same here as in the kernel's records."""
    return Path("/proc/self/ns/pid").stat().st_ino == _INITIAL_PID_NAMESPACE
