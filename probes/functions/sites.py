"""Which instructions of which library files are probed, for a set of functions."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING

from engine.readings import ProbeStatus
from probes.bpf import capabilities
from probes.bpf.errors import UnavailableError
from probes.elf.image import ElfError, Image
from probes.functions.detaching import Detacher
from probes.functions.probed import File, Site, identity_of
from probes.libraries.maps import FileKey, LibraryNames, Mapped, open_mapped
from probes.sampling.addresses import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from probes.bpf.loader import BpfObject
    from probes.functions.function import Function

# Every attachment takes the kernel 0.1 to 0.3 s to let go of when the agent stops.
MAX_ATTACHMENTS = 4096
# One file takes some milliseconds; what a storm of new files needs beyond this waits for `advance`.
ATTACH_SECONDS = 0.25
# A job that is started again maps its files within this time, and finds its probes there. Nobody
# runs into them meanwhile; without it the new job would wait until the old probes are let go of.
LINGER_SECONDS = 10.0


class FunctionSites:
    """Attaches functions in each file that is mapped, by inode. One thread uses it.

    `attach` works for at most ATTACH_SECONDS; call `advance` in every poll to go on. A file that
    lost its users keeps its probes for `linger_seconds`. Detaching is left to a thread; `close`
    waits for it.
    """

    def __init__(
        self,
        bpf: BpfObject,
        functions: Sequence[Function],
        *,
        max_files: int = 256,
        max_attachments: int = MAX_ATTACHMENTS,
        linger_seconds: float = LINGER_SECONDS,
    ) -> None:
        self._bpf = bpf
        self._functions = {function.name: function for function in functions}
        self._libraries = {f.name: LibraryNames(f.library) for f in functions}
        self._max_files = max_files
        self._max_attachments = max_attachments
        self._linger_seconds = linger_seconds
        self._files: dict[FileKey, File] = {}
        # Files without users that still have their probes, and until when (CLOCK_MONOTONIC).
        self._leaving: dict[FileKey, tuple[File, float]] = {}
        self._pending: deque[tuple[FileKey, str]] = deque()
        self._suspended: set[str] = set()
        # Other keys of a file that is probed already, by the key that it is kept under.
        self._twins: dict[FileKey, FileKey] = {}
        self._detacher = Detacher()

    @property
    def count(self) -> int:
        """Files with at least one probe."""
        return sum(any(s.attachments for s in f.sites.values()) for f in self._files.values())

    @property
    def attachments(self) -> int:
        """Probes that the kernel holds for us, those being detached included."""
        sites = [site for file in self._all() for site in file.sites.values()]
        held = sum(each.places for site in sites for each in site.attachments)
        return held + self._detacher.pending

    @property
    def pending(self) -> int:
        """Functions in files that `advance` has yet to attach."""
        return len(self._pending)

    @property
    def problem(self) -> bool:
        """Whether some file is not fully probed."""
        return any(each.complaints() for each in self._files.values())

    def status(self, probe: str) -> ProbeStatus:
        """The line about the first file that is not fully probed; attached when there is none."""
        for each in self._files.values():
            for reason, detail, mend in each.complaints():
                return ProbeStatus(probe, "degraded", reason, detail, mend)
        return ProbeStatus(probe, "attached", "", f"files: {self.count}")

    def attached(self, name: str) -> int:
        """Files in which a function is probed."""
        return sum(bool(site.attachments) for site in self._sites(name))

    def absent(self, name: str) -> int:
        """Files of its library in which a function was not found."""
        return sum(not site.places.symbols for site in self._sites(name))

    def trap_codes(self, name: str) -> list[bytes]:
        """The first bytes of each instruction at which a function is probed, or was."""
        return [
            os.pread(file.image.fd, 8, offset)
            for file in self._files.values()
            if file.image is not None and name in file.sites
            for _, offset in file.sites[name].places.plan(self._functions[name])
        ]

    def spans(self, name: str) -> list[Span]:
        """Where the function's code lies in each file, under each key that the file has."""
        return [
            Span(key, place.entry, place.size)
            for key, file in self._keyed()
            if name in file.sites
            for place in file.sites[name].places.symbols
            if place.size
        ]

    def _keyed(self) -> Iterator[tuple[FileKey, File]]:
        yield from self._files.items()
        for twin, key in self._twins.items():
            if key in self._files:
                yield twin, self._files[key]

    def timed(self, key: FileKey, name: str) -> bool:
        """Whether entry and exits of a function are probed in a file: its calls have durations."""
        file = self._files.get(self._twins.get(key, key))
        site = file.sites.get(name) if file is not None else None
        return site is not None and bool(site.attachments) and site.places.exits_known

    def attach(self, mapped: Mapped) -> None:
        """Probe a file that got its first user; what goes wrong is kept for `status`."""
        if mapped.key in self._files or mapped.key in self._twins:
            return  # some probes ask for each user of a file, at every poll
        if not any(of.match(mapped.name) for of in self._libraries.values()):
            return
        file = self._files[mapped.key] = File(mapped.key, mapped.path)
        if len(self._files) > self._max_files:
            file.reason = "too_many_libraries"
            file.detail = f"more than {self._max_files} different files are in use"
            return
        try:
            image = open_mapped(mapped)
        except ElfError as error:
            file.reason, file.detail = "unreadable_library", str(error)
            if isinstance(error.__cause__, PermissionError):
                file.mend = capabilities.MEND_OTHERS
            return
        if not self._known(mapped, image):
            file.open(image, self._detacher.add)
            self._look_up(file)
            self.advance()

    def advance(self) -> None:
        """Attach what was left over, for at most ATTACH_SECONDS."""
        for written in [each for each in self._files.values() if each.written()]:
            self._read_again(written)
        now = time.monotonic()
        for left, (old, until) in list(self._leaving.items()):
            if until <= now or old.written():
                del self._leaving[left]
                self._let_go(old)
        until = now + ATTACH_SECONDS
        for _ in range(len(self._pending)):  # what is put off again has its turn in the next poll
            if time.monotonic() > until:
                break
            key, name = self._pending.popleft()
            file = self._files.get(key)
            if file is None:
                continue
            if name not in file.sites:
                self._place(file, self._functions[name])
            elif name not in self._suspended:
                self._probe(file, file.sites[name], self._functions[name])

    def detach(self, key: FileKey) -> None:
        """Nobody maps a file any more: it is let go of, unless somebody soon maps it again."""
        if self._twins.pop(key, None) is not None:
            return
        file = self._files.pop(key, None)
        if file is None or self._inherit(key, file):
            return
        self._pending = deque(each for each in self._pending if each[0] != key)
        if key in self._leaving:  # another file, whose number it has
            self._let_go(self._leaving.pop(key)[0])
        if self._linger_seconds and any(site.attachments for site in file.sites.values()):
            self._leaving[key] = file, time.monotonic() + self._linger_seconds
        else:
            self._let_go(file)

    def _known(self, mapped: Mapped, image: Image) -> bool:
        """Whether a file is probed through another mount, or was a moment ago."""
        identity = identity_of(image)
        # As they are now: a new link to a file changes a time of it.
        for key, other in self._files.items():
            if other.image is not None and identity_of(other.image) == identity:
                self._twins[mapped.key] = key
                del self._files[mapped.key]
                image.close()
                return True
        for key, (other, _) in self._leaving.items():
            if other.image is not None and identity_of(other.image) == identity:
                image.close()
                self._return(key, mapped)
                return True
        return False

    def _return(self, key: FileKey, mapped: Mapped) -> None:
        """A file has users again, perhaps through another mount."""
        file, _ = self._leaving.pop(key)
        file.key, file.path = mapped.key, mapped.path
        self._files[mapped.key] = file
        self._look_up(file)
        self.advance()

    def _look_up(self, file: File) -> None:
        """Have `advance` attach all that the file's name stands for."""
        known = file.path.rpartition("/")[2]
        names = [name for name, of in self._libraries.items() if of.match(known)]
        self._pending.extend((file.key, name) for name in names)

    def _forget_leaving(self) -> None:
        for file, _ in self._leaving.values():
            self._let_go(file)
        self._leaving.clear()

    def _let_go(self, file: File) -> None:
        for name, site in file.sites.items():
            self._release(file, name, site)
        file.close()

    def _all(self) -> Iterator[File]:
        """Files with users, and those that had some lately."""
        yield from self._files.values()
        yield from (file for file, _ in self._leaving.values())

    def _inherit(self, key: FileKey, file: File) -> bool:
        """Whether the file has users through another mount, who keep its probes."""
        heirs = [twin for twin, owner in self._twins.items() if owner == key]
        if not heirs:
            return False
        first = heirs[0]
        del self._twins[first]
        self._twins.update(dict.fromkeys(heirs[1:], first))
        self._files[first], file.key = file, first
        self._pending = deque((first if k == key else k, name) for k, name in self._pending)
        return True

    def suspend(self, name: str) -> None:
        """Detach a function in all files until `resume`."""
        self._suspended.add(name)
        for file in self._all():
            if name in file.sites:
                self._release(file, name, file.sites[name])

    def resume(self, name: str) -> None:
        """Attach a suspended function again, now or in the next `advance`s."""
        if name in self._suspended:
            self._suspended.discard(name)
            self._pending.extend((key, name) for key, f in self._files.items() if name in f.sites)
            self.advance()

    def close(self) -> None:
        """Detach everything and wait for it."""
        for file in self._all():
            self._let_go(file)
        for table in (self._files, self._leaving, self._twins, self._pending):
            table.clear()
        self._detacher.drain()

    def _read_again(self, file: File) -> None:
        """Look for everything anew in a file that was written in place.

        Breakpoints where the old one had instructions would change what the new one does.
        """
        for name, site in file.sites.items():
            self._release(file, name, site)
        file.sites, old = {}, file.image
        file.reason = file.detail = file.mend = ""
        self._pending = deque(each for each in self._pending if each[0] != file.key)
        if old is None:
            return
        file.open(old, self._detacher.add)
        try:
            image = Image(f"/proc/self/fd/{old.fd}")
        except ElfError as error:
            # Not all of it is there yet, perhaps: what is written next has it read again.
            file.reason, file.detail = "unreadable_library", f"{file.path} was overwritten: {error}"
        else:
            old.close()
            file.image = image
            self._look_up(file)

    def _sites(self, name: str) -> list[Site]:
        return [file.sites[name] for file in self._files.values() if name in file.sites]

    def _place(self, file: File, function: Function) -> None:
        if file.image is None:
            return
        if function.name in file.sites:  # its turn was put off
            self._probe(file, file.sites[function.name], function)
            return
        try:
            places = file.places(file.image, function)
        except ElfError as error:
            file.reason, file.detail = "unreadable_library", str(error)
            return
        site = file.sites[function.name] = Site(places)
        site.reason, site.mend = places.reason, places.mend
        site.detail = f"{file.path}: {places.detail}" if places.detail else ""
        self._probe(file, site, function)

    def _probe(self, file: File, site: Site, function: Function) -> None:
        """Exits first: a thread that enters before its exits are probed would stay open."""
        if file.image is None or site.attachments or function.name in self._suspended:
            return
        if self._detacher.holds((file.identity, function.name)):
            # Its last user left a moment ago: probed twice, every call would count twice.
            self._pending.append((file.key, function.name))
            return
        plan = site.places.plan(function)
        if self.attachments + len(plan) > self._max_attachments:
            if self._leaving or self._detacher.pending:  # there is room in a moment
                self._forget_leaving()
                self._pending.append((file.key, function.name))
                return
            site.reason = "too_many_attachments"
            site.detail = f"{file.path}: {function.name} needs {len(plan)} probes, and at most "
            site.detail += f"{self._max_attachments} are attached"
            return
        # The agent's own pid, not self: the path must mean the same to whoever resolves it.
        path = f"/proc/{os.getpid()}/fd/{file.image.fd}"
        try:
            # Exits before entries, and all places of a program at once.
            for program in sorted({name for name, _ in plan}, key=function.leave.__ne__):
                offsets = [offset for name, offset in plan if name == program]
                site.attachments += self._bpf.attach_uprobes(program, path, offsets)
            file.hold(function.name, site.attachments)
        except UnavailableError as error:
            self._release(file, function.name, site)
            site.reason, site.detail, site.mend = error.reason, error.detail, error.mend

    def _release(self, file: File, name: str, site: Site) -> None:
        """Entries first, so that calls in flight still find their exits."""
        file.drop(name)
        released = [self._bpf.release(each) for each in reversed(site.attachments)]
        self._detacher.add((file.identity, name), released)
        site.attachments = []
