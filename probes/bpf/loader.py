"""Load a BPF source file and hold what came of it: programs, maps, attachments, counters.

    loaded = load(Path("program.bpf.c"), {"on_exec": ProgramType.TRACEPOINT}, {"LIMIT": 10})
    loaded.attach_tracepoint("on_exec", "sched", "sched_process_exec")
    loaded.map("owners").items()
    loaded.close()

A source is written in the words of `words/bcc.h` (SW_HASH, SW_EVENTS, sw_lookup, sw_count, ...)
and declares SW_COUNTERS: what it produced by stream, what it lost by reason.
"""

from __future__ import annotations

import enum
import functools
import logging
import struct
from typing import TYPE_CHECKING

from probes.bpf import attachment, bcc, capabilities, syscall, tracefs
from probes.bpf.accounting import Occupancy
from probes.bpf.builder import Built, Left, Source, build_first
from probes.bpf.events import MAX_PAGES, EventReader, PerfReader, RingReader
from probes.bpf.maps import Map

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from engine.readings import MapUse
    from probes.bpf.attachment import Attachment
    from probes.bpf.builder import Builder

LOG = logging.getLogger(__name__)


class ProgramType(enum.IntEnum):
    """BPF_PROG_TYPE_* of include/uapi/linux/bpf.h; a uprobe's program is of type kprobe."""

    UPROBE = 2
    KPROBE = 2
    TRACEPOINT = 5
    PERF_EVENT = 7
    RAW_TRACEPOINT = 17


class BpfObject:
    """Loaded programs. One thread uses it; `close` detaches and frees everything.

    `step`: what built them; `left`: the steps of the loader order that were left before it.
    """

    def __init__(self, built: Built, step: str = "", left: tuple[Left, ...] = ()) -> None:
        self._built = built
        self.step = step
        self.left = left
        self._maps: dict[str, Map] = {}
        self._attachments: list[Attachment] = []
        self._readers: list[EventReader] = []
        self._occupancy: Occupancy | None = None
        self._closed = False
        self._fill_slots()

    def _fill_slots(self) -> None:
        """Put the first ring into the slot of each SW_EVENTS, so that no record is too early."""
        for name, fd in self._built.map_fds.items():
            ring = self._built.map_fds.get(f"{name}_ring")
            if ring is not None:
                syscall.map_update(fd, struct.pack("=I", 0), struct.pack("=I", ring))

    def attach_tracepoint(self, program: str, category: str, event: str) -> Attachment:
        """Raises UnavailableError."""
        fd = self._built.program_fds[program]
        return self._keep(attachment.attach_tracepoint(fd, category, event))

    def attach_raw_tracepoint(self, program: str, event: str) -> Attachment:
        """Raises UnavailableError."""
        return self._keep(attachment.attach_raw_tracepoint(self._built.program_fds[program], event))

    def attach_uprobe(self, program: str, path: str, offset: int, pid: int = -1) -> Attachment:
        """`offset`: bytes into the file, not an address. Raises UnavailableError."""
        fd = self._built.program_fds[program]
        return self._keep(attachment.attach_uprobe(fd, path, offset, pid))

    def attach_kprobe(self, program: str, function: str, *, at_return: bool = False) -> Attachment:
        """On a function of the kernel. Raises UnavailableError."""
        fd = self._built.program_fds[program]
        return self._keep(attachment.attach_kprobe(fd, function, at_return=at_return))

    def attach_uprobes(self, program: str, path: str, offsets: Sequence[int]) -> list[Attachment]:
        """At several offsets of a file, as one where the kernel can. Raises UnavailableError."""
        fd = self._built.program_fds[program]
        return [self._keep(each) for each in attachment.attach_uprobes(fd, path, offsets)]

    def attach_clock(self, program: str, hertz: int) -> list[Attachment]:
        """On each CPU, so often. Raises UnavailableError."""
        fd = self._built.program_fds[program]
        return [self._keep(each) for each in attachment.attach_clock(fd, hertz)]

    def _keep(self, attached: Attachment) -> Attachment:
        self._attachments.append(attached)
        return attached

    def detach(self, attached: Attachment) -> None:
        """Detach one program before the others."""
        self._attachments.remove(attached)
        attached.detach()

    def release(self, attached: Attachment) -> Attachment:
        """Leave the detaching of one program to the caller, who may do it in another thread."""
        self._attachments.remove(attached)
        return attached

    def map(self, name: str) -> Map:
        """A map of the source. KeyError when it declares none of that name.

        Raises UnavailableError when the kernel does not describe it.
        """
        if name not in self._maps:
            try:
                self._maps[name] = Map(name, self._built.map_fds[name])
            except OSError as error:
                privileges = capabilities.read_privileges()
                raise capabilities.explain_refusal(error, privileges) from error
        return self._maps[name]

    def events(
        self, name: str, pages: int, *, max_pages: int = MAX_PAGES, prompt: bool = False
    ) -> EventReader:
        """Read an SW_EVENTS map.

        `pages`: of the perf buffers where the kernel has no ring; a ring begins with those of its
        declaration. `max_pages`: how far it may grow. `prompt`: the first record in an empty ring
        wakes the collector, for events that must not wait for its next poll.
        """
        events = self.map(name)
        reader: EventReader
        if events.info.type == syscall.MAP_TYPE_ARRAY_OF_MAPS:
            first = self._built.map_fds.pop(f"{name}_ring")
            mark = self.map(f"{name}_wake")
            reader = RingReader(events, first, mark, max_pages=max_pages, prompt=prompt)
        else:
            reader = PerfReader(events, pages)
        self._readers.append(reader)
        return reader

    def produced(self) -> list[int]:
        """Events after the filter, by stream, since load."""
        return self.map("sw_produced").sums()

    def lost(self) -> list[int]:
        """Failed updates, by the source's reasons, since load."""
        return self.map("sw_lost").sums()

    def recursion_misses(self, program: str) -> int:
        """How often the kernel skipped a program because BPF already ran on that CPU."""
        return syscall.recursion_misses(self._built.program_fds[program])

    @property
    def programs(self) -> tuple[str, ...]:
        """The loaded programs."""
        return tuple(self._built.program_fds)

    def map_use(self) -> tuple[MapUse, ...]:
        """How full the maps are, as far as it is known; costs little, see `Occupancy`."""
        if self._occupancy is None:
            self._occupancy = Occupancy(self.map(name) for name in sorted(self._built.map_fds))
        return self._occupancy.look()

    def close(self) -> None:
        """Detach, then free. Twice is fine."""
        if self._closed:
            return
        self._closed = True
        for attached in self._attachments:
            attached.detach()
        for reader in self._readers:
            reader.close()
        self._built.close()


def load(
    path: Path,
    programs: Mapping[str, ProgramType],
    defines: Mapping[str, int | str] | None = None,
    builders: Sequence[Builder] | None = None,
) -> BpfObject:
    """Build, verify and load, by the first of `builders` that can.

    Raises UnavailableError with the reason, the mend, and what each step met. The first call also
    removes what an agent that was killed left in uprobe_events.
    """
    capabilities.require_bpf(capabilities.read_privileges())
    _remove_stale_once()
    capabilities.lift_locked_memory()
    source = Source(path, {name: int(kind) for name, kind in programs.items()}, defines or {})
    built, step, left = build_first(source, builders or bcc.builders())
    if left:
        LOG.warning("%s: %s; built with %s", source.name, "; ".join(map(str, left)), step)
    return BpfObject(built, step, left)


@functools.cache
def _remove_stale_once() -> None:
    tracefs.remove_stale()
