"""Hears of processes that touch the dynamic linker, run a program or fork (`program.bpf.c`)."""

from __future__ import annotations

import contextlib
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from probes.bpf.errors import UnavailableError
from probes.bpf.loader import BpfObject, ProgramType, load
from probes.bpf.tracepoint import read_format
from probes.elf.image import ElfError
from probes.elf.symbols import find_functions
from probes.libraries.maps import open_mapped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from probes.bpf.attachment import Attachment
    from probes.bpf.events import EventReader
    from probes.libraries.maps import FileKey, Mapped

SOURCE = Path(__file__).with_name("program.bpf.c")
LINKED = "_dl_debug_state"
RING_PAGES = 32
# A node with more distinct dynamic linkers (one per container image) falls back to what the exec
# tracepoint and the periodic scan tell.
MAX_LINKERS = 256

_TOUCH = struct.Struct("=III")
_EXECUTED, _FORKED = 1, 2


@dataclass(slots=True)
class Heard:
    """`touched`: pids worth a look. `executed`: those of them that run another program.

    `forked`: new children of watched processes by their parent's pid; some are threads. `lost`:
    whether some records did not fit.
    """

    touched: set[int] = field(default_factory=set)
    executed: set[int] = field(default_factory=set)
    forked: dict[int, int] = field(default_factory=dict)
    lost: bool = False

    @classmethod
    def of(cls, records: Iterable[bytes], *, lost: bool = False) -> Heard:
        """From the ring's records, in their order."""
        heard = cls(lost=lost)
        for record in records:
            kind, pid, parent = _TOUCH.unpack_from(record)
            if kind == _FORKED:
                heard.forked[pid] = parent
                continue
            heard.touched.add(pid)
            if kind == _EXECUTED:
                heard.executed.add(pid)
                heard.forked.pop(pid, None)  # whatever its parent mapped is gone
        return heard


class Hook(Protocol):
    """A source of pids worth a look. `deaf` says why execs are not heard, "" when they are."""

    deaf: str

    def add(self, linker: Mapped) -> bool:
        """Listen to a dynamic linker; False when it was known or cannot be listened to."""
        ...

    def keep_only(self, linkers: set[FileKey]) -> None:
        """Forget the linkers that no process maps any more."""
        ...

    def follow(self, pid: int) -> None:
        """Hear of the children of a process."""
        ...

    def unfollow(self, pid: int) -> None:
        """Hear of its children no longer."""
        ...

    def drain(self) -> Heard:
        """What was heard since the last call."""
        ...

    def close(self) -> None:
        """Detach everything."""
        ...


class LinkerHook:
    """Uprobes on `_dl_debug_state` of each dynamic linker, and tracepoints of exec and fork.

    Raises UnavailableError when the program cannot be loaded. `deaf` says why execs are not
    heard, "" when they are; `forks` whether forks are.
    """

    def __init__(self) -> None:
        self._attached: dict[FileKey, Attachment | None] = {}
        self._lost = 0
        self.deaf = ""
        self.forks = False
        self._bpf = self._hear()
        self._touched: EventReader = self._bpf.events("touched", RING_PAGES)
        self._watched = self._bpf.map("watched")

    def _hear(self) -> BpfObject:
        kinds = {"on_link": ProgramType.UPROBE}
        forks = _fork_layout()
        with_forks = {"on_fork": ProgramType.TRACEPOINT} if forks else {}
        bpf = load(SOURCE, kinds | with_forks | {"on_exec": ProgramType.TRACEPOINT}, forks)
        try:
            bpf.attach_tracepoint("on_exec", "sched", "sched_process_exec")
        except UnavailableError:
            # Raw tracepoints need no tracefs.
            bpf.close()
            bpf = load(SOURCE, kinds | {"on_exec": ProgramType.RAW_TRACEPOINT})
            try:
                bpf.attach_raw_tracepoint("on_exec", "sched_process_exec")
            except UnavailableError as error:
                self.deaf = error.detail
        else:
            # Without it a forked process is known from its first hit.
            with contextlib.suppress(UnavailableError, KeyError):
                bpf.attach_tracepoint("on_fork", "sched", "sched_process_fork")
                self.forks = True
        return bpf

    @property
    def linkers(self) -> int:
        """How many dynamic linkers are listened to."""
        return sum(attachment is not None for attachment in self._attached.values())

    def add(self, linker: Mapped) -> bool:
        """See `Hook.add`."""
        if linker.key in self._attached or len(self._attached) >= MAX_LINKERS:
            return False
        self._attached[linker.key] = None
        try:
            with open_mapped(linker) as image:
                functions = find_functions(image, LINKED)
                if not functions:
                    return False
                offset = image.code_offset(functions[0].address)
                path = f"/proc/self/fd/{image.fd}"
                self._attached[linker.key] = self._bpf.attach_uprobe("on_link", path, offset)
        except (ElfError, UnavailableError):
            # The exec tracepoint still tells of its processes.
            return False
        return True

    def keep_only(self, linkers: set[FileKey]) -> None:
        """See `Hook.keep_only`."""
        for key in self._attached.keys() - linkers:
            attachment = self._attached.pop(key)
            if attachment is not None:
                self._bpf.detach(attachment)

    def follow(self, pid: int) -> None:
        """See `Hook.follow`."""
        with contextlib.suppress(OSError):  # full: see the map's comment
            self._watched.update(struct.pack("=I", pid), struct.pack("=I", 1))

    def unfollow(self, pid: int) -> None:
        """See `Hook.unfollow`."""
        self._watched.delete(struct.pack("=I", pid))

    def drain(self) -> Heard:
        """See `Hook.drain`."""
        records = self._touched.drain()
        lost = self._bpf.lost()[0]
        fresh, self._lost = lost > self._lost, lost
        return Heard.of(records, lost=fresh)

    def close(self) -> None:
        """See `Hook.close`."""
        self._bpf.close()


def _fork_layout() -> dict[str, int | str]:
    """Where the child's pid is in the record of a fork; empty where that is not to be read."""
    try:
        layout = read_format("sched", "sched_process_fork")
        layout.require("child_pid")
    except UnavailableError:
        return {}
    return dict(layout.defines("FORK", ["child_pid"]))
