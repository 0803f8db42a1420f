"""Hears of processes that touch the dynamic linker, through `program.bpf.c`."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from probes.bpf.errors import UnavailableError
from probes.bpf.loader import BpfObject, ProgramType, load
from probes.elf.image import ElfError
from probes.elf.symbols import find_functions
from probes.libraries.maps import open_mapped

if TYPE_CHECKING:
    from probes.bpf.attachment import Attachment
    from probes.bpf.events import EventReader
    from probes.libraries.maps import FileKey, Mapped

SOURCE = Path(__file__).with_name("program.bpf.c")
LINKED = "_dl_debug_state"
RING_PAGES = 32
# A node with more distinct dynamic linkers (one per container image) falls back to what the exec
# tracepoint and the periodic scan tell.
MAX_LINKERS = 256


class Hook(Protocol):
    """A source of pids worth a look. `deaf` says why execs are not heard, "" when they are."""

    deaf: str

    def add(self, linker: Mapped) -> bool:
        """Listen to a dynamic linker; False when it was known or cannot be listened to."""
        ...

    def keep_only(self, linkers: set[FileKey]) -> None:
        """Forget the linkers that no process maps any more."""
        ...

    def drain(self) -> tuple[set[int], bool]:
        """(pids since the last call, whether some were lost)."""
        ...

    def close(self) -> None:
        """Detach everything."""
        ...


class LinkerHook:
    """Uprobes on `_dl_debug_state` of each dynamic linker, and the exec tracepoint.

    Raises UnavailableError when the program cannot be loaded. `deaf` says why execs are not
    heard, "" when they are.
    """

    def __init__(self) -> None:
        self._attached: dict[FileKey, Attachment | None] = {}
        self._lost = 0
        self.deaf = ""
        self._bpf = self._hear_execs()
        self._touched: EventReader = self._bpf.events("touched", RING_PAGES)

    def _hear_execs(self) -> BpfObject:
        kinds = {"on_link": ProgramType.UPROBE}
        bpf = load(SOURCE, kinds | {"on_exec": ProgramType.TRACEPOINT})
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
                offset = image.file_offset(functions[0].address)
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

    def drain(self) -> tuple[set[int], bool]:
        """See `Hook.drain`."""
        pids = {struct.unpack_from("=I", record)[0] for record in self._touched.drain()}
        lost = self._bpf.lost()[0]
        fresh, self._lost = lost > self._lost, lost
        return pids, fresh

    def close(self) -> None:
        """See `Hook.close`."""
        self._bpf.close()
