"""Attaching programs: tracepoints, raw tracepoints, kprobes, uprobes by file offset."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from probes.bpf import capabilities, syscall, tracefs
from probes.bpf.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_numbers = itertools.count()
# Held for a moment only: nobody closes a descriptor that is another's by now.
_detaching = threading.Lock()


@dataclass(slots=True)
class Attachment:
    """One attached program; the kernel holds it as long as the fd is open.

    `event`: the entry in uprobe_events, "" for the others. `places`: how many instructions it is
    at.
    """

    fd: int
    event: str = ""
    places: int = 1
    _detached: bool = field(default=False, repr=False)

    @property
    def detached(self) -> bool:
        """Whether it has been let go of, or is about to be."""
        return self._detached

    def detach(self) -> None:
        """Stop. Takes the kernel 10 to 300 ms (RCU). Twice is fine, from two threads too."""
        with _detaching:
            if self._detached:
                return
            self._detached = True
        os.close(self.fd)
        if self.event:
            with contextlib.suppress(OSError, UnavailableError):
                tracefs.remove(self.event)


def attach_tracepoint(program_fd: int, category: str, event: str) -> Attachment:
    """Run a program on a tracepoint. Raises UnavailableError."""
    try:
        identity = tracefs.event_id(category, event)
        return _perf(program_fd, syscall.PERF_TYPE_TRACEPOINT, identity)
    except FileNotFoundError as error:
        raise UnavailableError(
            "no_tracepoint", f"this kernel has no tracepoint {category}:{event}"
        ) from error
    except OSError as error:
        raise capabilities.explain_refusal(error, capabilities.read_privileges()) from error


def attach_raw_tracepoint(program_fd: int, event: str) -> Attachment:
    """Run a program on a raw tracepoint, which needs no tracefs. Raises UnavailableError."""
    try:
        return Attachment(syscall.raw_tracepoint_open(event, program_fd))
    except FileNotFoundError as error:
        raise UnavailableError(
            "no_tracepoint", f"this kernel has no raw tracepoint {event}"
        ) from error
    except OSError as error:
        raise capabilities.explain_refusal(error, capabilities.read_privileges()) from error


def attach_uprobe(program_fd: int, path: str, offset: int, pid: int = -1) -> Attachment:
    """Run a program when an instruction at a file offset is reached, in any process by default.

    The path is resolved once, now: `/proc/self/fd/N` of a file kept open is a good one, as it
    needs no mount namespace of a process that may die. Raises UnavailableError.
    """
    pmu = capabilities.uprobe_pmu()
    refused: OSError | None = None
    if pmu is not None:
        try:
            return _perf(program_fd, pmu, 0, path=path, offset=offset, pid=pid)
        except PermissionError as error:
            refused = error  # the PMU asks for CAP_SYS_ADMIN on some kernels; tracefs does not
        except OSError as error:
            raise _no_uprobe(path, offset, error) from error
    try:
        return _through_tracefs(program_fd, path, offset, pid)
    except (UnavailableError, OSError) as error:
        if refused is not None:
            raise UnavailableError(
                "missing_capability",
                "uprobes are refused without CAP_SYS_ADMIN",
                "docker: --cap-add SYS_ADMIN; Kubernetes: capabilities.add [SYS_ADMIN]",
            ) from error
        if isinstance(error, UnavailableError):
            raise
        raise _no_uprobe(path, offset, error) from error


# Bit 0 of the kprobe PMU's config asks for a return probe (kernel/events/core.c).
_RETURN_PROBE = 1


def attach_kprobe(program_fd: int, function: str, *, at_return: bool = False) -> Attachment:
    """Run a program when a function of the kernel is entered, or has returned.

    A return probe is allowed here, unlike in user space: nothing in the kernel unwinds through it.
    Raises UnavailableError: no_kprobe where the kernel has none, or not this function.
    """
    pmu = capabilities.kprobe_pmu()
    if pmu is None:
        raise UnavailableError("no_kprobe", "this kernel has no kprobes")
    try:
        return _perf(program_fd, pmu, _RETURN_PROBE if at_return else 0, path=function)
    except PermissionError as error:
        raise capabilities.explain_refusal(error, capabilities.read_privileges()) from error
    except OSError as error:
        detail = f"no kprobe on {function}: {error.strerror}"
        raise UnavailableError("no_kprobe", detail) from error


def attach_uprobes(program_fd: int, path: str, offsets: Sequence[int]) -> list[Attachment]:
    """Run a program at several offsets of one file, in any process; as `attach_uprobe`.

    Where the kernel can, all are one link: attaching a hundred takes 25 ms and detaching 50 ms, and
    not 20 s, because the perf events of a hundred uprobes wait for RCU one after the other.
    """
    if capabilities.has_uprobe_multi():
        # Refused where the program was built by a bcc that cannot say what it is for.
        with contextlib.suppress(OSError):
            fd = syscall.uprobe_multi(program_fd, path, offsets)
            return [Attachment(fd, places=len(offsets))]
    attached: list[Attachment] = []
    try:
        attached.extend(attach_uprobe(program_fd, path, offset) for offset in offsets)
    except UnavailableError:
        for each in attached:
            each.detach()
        raise
    return attached


def attach_clock(program_fd: int, hertz: int) -> list[Attachment]:
    """Run a program so often on each CPU that is online now and not idle.

    Raises UnavailableError: no_clock where perf events are refused.
    """
    attached: list[Attachment] = []
    try:
        for cpu in syscall.online_cpus():
            with _unless_offline():
                fd = syscall.perf_clock_open(cpu, hertz)
                attached.append(Attachment(fd))
                syscall.perf_event_attach(fd, program_fd)
    except OSError as error:
        for each in attached:
            each.detach()
        mend = "allow perf events: CAP_PERFMON or CAP_SYS_ADMIN, and no seccomp filter on them"
        raise UnavailableError("no_clock", f"no clock of a CPU: {error.strerror}", mend) from error
    return attached


@contextlib.contextmanager
def _unless_offline() -> Iterator[None]:
    """A CPU that was taken away a moment ago is none that is refused."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise


def _through_tracefs(program_fd: int, path: str, offset: int, pid: int) -> Attachment:
    event = _add_entry(path, offset)
    try:
        group, _, name = event.partition("/")
        identity = tracefs.event_id(group, name)
        attached = _perf(program_fd, syscall.PERF_TYPE_TRACEPOINT, identity, pid=pid)
    except BaseException:
        tracefs.remove(event)
        raise
    attached.event = event
    return attached


def _add_entry(path: str, offset: int) -> str:
    """Name a file in uprobe_events by a descriptor of ours; the kernel keeps its inode.

    Never by the name behind it: a library of another mount namespace has a name that means another
    file here, or none, and a space in a name would end it (Documentation/trace/uprobetracer.rst).
    """
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return tracefs.add_uprobe(f"/proc/self/fd/{fd}", offset, next(_numbers))
    finally:
        os.close(fd)


def _perf(
    program_fd: int, kind: int, config: int, *, path: str = "", offset: int = 0, pid: int = -1
) -> Attachment:
    fd = syscall.perf_event_open(kind, config, path=path, offset=offset, pid=pid)
    try:
        syscall.perf_event_attach(fd, program_fd)
    except BaseException:
        os.close(fd)
        raise
    return Attachment(fd)


def _no_uprobe(path: str, offset: int, error: OSError) -> UnavailableError:
    return UnavailableError("no_uprobe", f"no uprobe at {path}+{offset:#x}: {error.strerror}")
