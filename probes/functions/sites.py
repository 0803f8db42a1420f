"""Which instructions of which library files are probed, for a set of functions."""

from __future__ import annotations

import os
import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, TypeAlias

from engine.readings import ProbeStatus
from probes.bpf import capabilities
from probes.bpf.errors import UnavailableError
from probes.elf.image import ElfError, Image
from probes.functions.detaching import Detacher
from probes.functions.places import find_places
from probes.libraries.maps import FileKey, LibraryNames, Mapped, open_mapped
from probes.sampling.addresses import Span
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from probes.bpf.attachment import Attachment
    from probes.bpf.loader import BpfObject
    from probes.functions.function import Function
    from probes.functions.places import Places

# Every attachment takes the kernel 0.1 to 0.3 s to let go of when the agent stops.
MAX_ATTACHMENTS = 4096
# One file takes some milliseconds; what a storm of new files needs beyond this waits for `advance`.
ATTACH_SECONDS = 0.25


@dataclass(slots=True)
class Site:
    """A function in one file. `reason`: a stable word for what it lacks, "" for nothing."""

    places: Places
    attachments: list[Attachment] = field(default_factory=list)
    reason: str = ""
    detail: str = ""
    mend: str = ""


Identity: TypeAlias = "tuple[int, int, int, int]"


# What was found in files lately. A job that is started again maps the same files, and looking for
# fifteen functions in libtorch takes seconds, in which its first steps would be missed.
_FOUND: OrderedDict[tuple[Identity, Function], Places] = OrderedDict()
MAX_FOUND = 4096


def _places(image: Image, identity: Identity, function: Function) -> Places:
    """`find_places`, remembered. Raises ElfError."""
    key = (identity, function)
    if key not in _FOUND:
        _FOUND[key] = find_places(image, function)
        if len(_FOUND) > MAX_FOUND:
            _FOUND.popitem(last=False)
    return _FOUND[key]


def identity_of(image: Image) -> Identity:
    """What two overlay mounts show alike of one file in a layer that they share.

    Device numbers differ; a probe goes to the file below, and one through each mount would count
    every call twice. No two files have the number, the size and both times to the nanosecond.
    """
    facts = os.fstat(image.fd)
    # An overlay may put the layer's number into the upper half (Documentation/filesystems/
    # overlayfs.rst, xino).
    return facts.st_ino & 0xFFFFFFFF, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def state_of(image: Image) -> tuple[int, int]:
    """What changes when a file is written in place, and not when it is linked or renamed."""
    facts = os.fstat(image.fd)
    return facts.st_size, facts.st_mtime_ns


@dataclass(slots=True)
class File:
    """A library file that is mapped; `image` is kept open, so that it can be attached again."""

    key: FileKey
    path: str
    identity: Identity = (0, 0, 0, 0)
    state: tuple[int, int] = (0, 0)
    image: Image | None = None
    sites: dict[str, Site] = field(default_factory=dict)
    reason: str = ""
    detail: str = ""
    mend: str = ""

    def written(self) -> bool:
        """Whether the file has other content than when it was opened."""
        return self.image is not None and state_of(self.image) != self.state

    def complaints(self) -> list[tuple[str, str, str]]:
        """(reason, detail, mend) of the file and its functions."""
        parts: list[File | Site] = [self, *self.sites.values()]
        return [(each.reason, each.detail, each.mend) for each in parts if each.reason]


class FunctionSites:
    """Attaches functions in each file that is mapped, by inode. One thread uses it.

    `attach` works for at most ATTACH_SECONDS; call `advance` in every poll to go on. Detaching is
    left to a thread; `close` waits for it.
    """

    def __init__(
        self,
        bpf: BpfObject,
        functions: Sequence[Function],
        *,
        max_files: int = 256,
        max_attachments: int = MAX_ATTACHMENTS,
    ) -> None:
        self._bpf = bpf
        self._functions = {function.name: function for function in functions}
        self._libraries = {f.name: LibraryNames(f.library) for f in functions}
        self._max_files = max_files
        self._max_attachments = max_attachments
        self._files: dict[FileKey, File] = {}
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
        sites = [site for file in self._files.values() for site in file.sites.values()]
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
        names = [n for n, of in self._libraries.items() if of.match(mapped.name)]
        if not names:
            return
        file = self._files[mapped.key] = File(mapped.key, mapped.path)
        if len(self._files) > self._max_files:
            file.reason = "too_many_libraries"
            file.detail = f"more than {self._max_files} different files are in use"
            return
        try:
            file.image = open_mapped(mapped)
        except ElfError as error:
            file.reason, file.detail = "unreadable_library", str(error)
            if isinstance(error.__cause__, PermissionError):
                file.mend = capabilities.MEND_OTHERS
            return
        file.identity, file.state = identity_of(file.image), state_of(file.image)
        for key, other in self._files.items():
            if other is not file and other.image is not None and other.identity == file.identity:
                self._twins[mapped.key] = key
                del self._files[mapped.key]
                file.image.close()
                return
        self._pending.extend((mapped.key, name) for name in names)
        self.advance()

    def advance(self) -> None:
        """Attach what was left over, for at most ATTACH_SECONDS."""
        for written in [each for each in self._files.values() if each.written()]:
            self._read_again(written)
        until = time.monotonic() + ATTACH_SECONDS
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
        """Let go of a file that nobody maps any more."""
        if self._twins.pop(key, None) is not None:
            return
        file = self._files.pop(key, None)
        if file is None or self._inherit(key, file):
            return
        for name, site in file.sites.items():
            self._release(file, name, site)
        if file.image is not None:
            file.image.close()

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
        for file in self._files.values():
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
        self._twins.clear()
        for key in list(self._files):
            self.detach(key)
        self._pending.clear()
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
        try:
            file.image = Image(f"/proc/self/fd/{old.fd}")
        except ElfError as error:
            file.image = None
            file.reason, file.detail = "unreadable_library", f"{file.path} was overwritten: {error}"
        else:
            file.identity, file.state = identity_of(file.image), state_of(file.image)
            known = file.path.rpartition("/")[2]
            names = [name for name, of in self._libraries.items() if of.match(known)]
            self._pending.extend((file.key, name) for name in names)
        old.close()

    def _sites(self, name: str) -> list[Site]:
        return [file.sites[name] for file in self._files.values() if name in file.sites]

    def _place(self, file: File, function: Function) -> None:
        if file.image is None:
            return
        if function.name in file.sites:  # its turn was put off
            self._probe(file, file.sites[function.name], function)
            return
        try:
            places = _places(file.image, file.identity, function)
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
        except UnavailableError as error:
            self._release(file, function.name, site)
            site.reason, site.detail, site.mend = error.reason, error.detail, error.mend

    def _release(self, file: File, name: str, site: Site) -> None:
        """Entries first, so that calls in flight still find their exits."""
        released = [self._bpf.release(each) for each in reversed(site.attachments)]
        self._detacher.add((file.identity, name), released)
        site.attachments = []
