"""Where tracefs is, and what an earlier agent left in it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
from pathlib import Path

from engine.aggregate.procfs import Procfs
from engine.readings import Process
from probes.bpf.errors import UnavailableError

_PLACES = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
GROUP = "stallwatch"
_ENTRY = re.compile(rf"^[pr]:(?P<event>{GROUP}/[a-z]_(?P<pid>\d+)_(?P<start>\d+)_\d+)\s")

MEND = (
    "mount -t tracefs tracefs /sys/kernel/tracing"
    " (docker: -v /sys/kernel/tracing:/sys/kernel/tracing)"
)


def folder(*, mount: bool = True) -> Path:
    """The mounted tracefs; an unmounted one is mounted where the agent may.

    Raises UnavailableError: no_tracefs, or missing_capability when it is there but closed.
    """
    found = _mounted()
    if found is None and mount and _mount(_PLACES[0]):
        found = _mounted()
    if found is not None:
        return found
    if _is_closed(_PLACES[0]):
        raise UnavailableError(
            "missing_capability",
            f"{_PLACES[0]} cannot be read",
            "run as root, or add CAP_DAC_READ_SEARCH (docker: --cap-add DAC_READ_SEARCH)",
        )
    raise UnavailableError("no_tracefs", "tracefs is not mounted", MEND)


def _mounted() -> Path | None:
    for place in _PLACES:
        with contextlib.suppress(PermissionError):
            if (place / "events").is_dir():
                return place
    return None


def _is_closed(place: Path) -> bool:
    try:
        os.scandir(place).close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _mount(place: Path) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    nosuid_nodev_noexec = 2 | 4 | 8
    return (
        place.is_dir()
        and libc.mount(b"tracefs", bytes(place), b"tracefs", nosuid_nodev_noexec, None) == 0
    )


def own_start_ticks() -> int:
    """This process's start time, which with the pid makes its names unique."""
    own = Procfs().identify(os.getpid())
    return own.start_ticks if own is not None else 0


def add_uprobe(path: str, offset: int, number: int) -> str:
    """Write one entry to uprobe_events, with our name, pid and start time; its event name.

    OSError as the kernel gives it.
    """
    event = f"{GROUP}/u_{os.getpid()}_{own_start_ticks()}_{number}"
    _write(f"p:{event} {path}:{offset:#x}")
    return event


def remove(event: str) -> None:
    """Take an entry out again; absent already is fine."""
    try:
        _write(f"-:{event}")
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def _write(line: str) -> None:
    # O_APPEND, or the kernel clears the whole list; no Python file, which would seek.
    fd = os.open(folder() / "uprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, f"{line}\n".encode())
    finally:
        os.close(fd)


def stale_events(text: str) -> list[str]:
    """Entries of agents that no longer run, in the text of uprobe_events."""
    return [
        match["event"]
        for match in map(_ENTRY.match, text.splitlines())
        if match is not None and not _runs(int(match["pid"]), int(match["start"]))
    ]


def _runs(pid: int, start_ticks: int) -> bool:
    return Procfs().alive(Process(pid, start_ticks))


def remove_stale() -> int:
    """Remove what agents that were killed left in uprobe_events; how many there were.

    Entries in use (another agent's, other tools') are left alone; so is everything where tracefs
    is closed to us: then nothing of ours can be in it either.
    """
    removed = 0
    with contextlib.suppress(UnavailableError, OSError):
        text = (folder() / "uprobe_events").read_text(encoding="utf-8")
        for event in stale_events(text):
            with contextlib.suppress(OSError):  # one that cannot go must not keep the others
                remove(event)
                removed += 1
    return removed


def event_id(category: str, event: str) -> int:
    """The number that perf_event_open(2) knows a tracepoint by."""
    return int((folder() / "events" / category / event / "id").read_text(encoding="ascii"))
