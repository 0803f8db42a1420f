"""The profiler plugins that processes have loaded, and the probes in them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engine.readings import ProbeStatus
from probes.bpf.errors import UnavailableError
from probes.elf.entries import entry_offset
from probes.elf.image import ElfError, Image, NotCodeError
from probes.functions.detaching import Detacher
from probes.functions.probed import File
from probes.libraries.maps import PROC, LibraryNames, open_mapped
from probes.nccl.plugin import read_plugin
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from pathlib import Path

    from probes.bpf.attachment import Attachment
    from probes.bpf.loader import BpfObject
    from probes.functions.probed import Identity
    from probes.libraries.maps import FileKey, Mapped
    from probes.nccl.plugin import Plugin

# A plugin for the network may hold a profiler too.
NAMES = ("libnccl-profiler", "libnccl-net")
VARIABLE = b"NCCL_PROFILER_PLUGIN="
PLUGIN = "plugin"


@dataclass(slots=True)
class PluginFile:
    """A plugin in use, kept open."""

    file: File
    plugin: Plugin | None = None
    attachments: list[Attachment] = field(default_factory=list)
    reason: str = ""
    detail: str = ""
    mend: str = ""

    def reset(self) -> None:
        """What was read of it holds no longer."""
        self.plugin = None
        self.reason = self.detail = self.mend = ""

    @property
    def owner(self) -> tuple[Identity, str]:
        """Whose the attachments are, for the detacher."""
        return self.file.identity, PLUGIN


class Plugins:
    """Attaches to each plugin's functions. One thread uses it; it calls `advance` in every poll."""

    def __init__(self, bpf: BpfObject) -> None:
        self._bpf = bpf
        self._files: dict[FileKey, PluginFile] = {}
        self._suspended = False
        self._detacher = Detacher()

    @property
    def attached(self) -> int:
        """Plugins whose kernel events are seen."""
        return sum(bool(each.attachments) for each in self._files.values())

    def status(self, probe: str) -> ProbeStatus | None:
        """The line about the first plugin that cannot be read; None when there is none."""
        for each in self._files.values():
            if each.reason:
                detail = f"{each.file.path}: {each.detail}; waits are those of synchronising calls"
                return ProbeStatus(probe, "degraded", each.reason, detail, each.mend)
        return None

    def attach(self, mapped: Mapped) -> None:
        """Probe a file that got its first user, if it is a plugin."""
        if mapped.key in self._files:
            return
        found = PluginFile(File(mapped.key, mapped.path))
        try:
            image = open_mapped(mapped)
        except ElfError as error:
            self._files[mapped.key] = found
            found.reason, found.detail = "unreadable_library", str(error)
            return
        self._read(found, image)
        if found.plugin is None and not found.reason:
            found.file.close()  # it exports no table
        else:
            self._files[mapped.key] = found
            self.advance()

    def advance(self) -> None:
        """Attach what may be, and read again what was overwritten in place."""
        for each in self._files.values():
            if each.file.written() and each.file.image is not None:
                self._read_again(each, each.file.image)
            image, plugin = each.file.image, each.plugin
            if image is None or plugin is None or each.attachments or each.reason:
                continue
            # Probed while the old probes are let go of, it would count twice.
            if not self._suspended and not self._detacher.holds(each.owner):
                self._probe(each, image, plugin)

    def detach(self, key: FileKey) -> None:
        """Let go of a file that nobody maps any more."""
        found = self._files.pop(key, None)
        if found is not None:
            self._release(found)
            found.file.close()

    def suspend(self) -> None:
        """Detach all plugins until `resume`."""
        self._suspended = True
        for found in self._files.values():
            self._release(found)

    def resume(self) -> None:
        """Attach them again, now or in the next `advance`s."""
        self._suspended = False
        self.advance()

    def close(self) -> None:
        """Detach everything and wait for it."""
        for key in list(self._files):
            self.detach(key)
        self._detacher.drain()

    def _read(self, found: PluginFile, image: Image) -> None:
        found.file.open(image, self._detacher.add)
        try:
            found.plugin = read_plugin(image)
        except ElfError as error:
            found.reason, found.detail = "unreadable_library", str(error)
        if found.plugin is not None:
            found.reason, found.detail = found.plugin.reason, found.plugin.detail

    def _read_again(self, found: PluginFile, old: Image) -> None:
        """Breakpoints where the old content had instructions would change what the new one does."""
        self._release(found)
        found.reset()
        found.file.open(old, self._detacher.add)  # half of it may be there, and the rest is noticed
        try:
            image = Image(f"/proc/self/fd/{old.fd}")
        except ElfError as error:
            found.reason, found.detail = "unreadable_library", f"it was overwritten: {error}"
            return
        self._read(found, image)
        old.close()
        if found.plugin is None and not found.reason:
            found.reason, found.detail = "profiler_table", "it was overwritten and is no plugin"

    def _probe(self, found: PluginFile, image: Image, plugin: Plugin) -> None:
        path = f"/proc/{os.getpid()}/fd/{image.fd}"
        try:
            # Ends first, so that what begins is seen to end.
            for hook in sorted(plugin.hooks, key=lambda each: each.program != "stop_event"):
                places = [(hook.leave, image.code_offset(address)) for address in hook.exits]
                places.append((hook.program, entry_offset(image, hook.address)))
                for program, offset in places:
                    found.attachments.append(self._bpf.attach_uprobe(program, path, offset))
        except NotCodeError as error:
            self._release(found)
            found.reason, found.detail = "not_a_function", str(error)
        except UnavailableError as error:
            self._release(found)
            found.reason, found.detail, found.mend = error.reason, error.detail, error.mend
        else:
            found.file.hold(PLUGIN, found.attachments)

    def _release(self, found: PluginFile) -> None:
        found.file.drop(PLUGIN)
        released = [self._bpf.release(each) for each in reversed(found.attachments)]
        self._detacher.add(found.owner, released)
        found.attachments = []


def named_by_environment(pid: int, proc: Path = PROC) -> tuple[Mapped, ...]:
    """The plugin that NCCL_PROFILER_PLUGIN of a process names by a path of another name.

    Only what is mapped already: NCCL loads it with the first communicator.
    """
    try:
        variables = (proc / f"{pid}/environ").read_bytes().split(b"\0")
        values = [each[len(VARIABLE) :] for each in variables if each.startswith(VARIABLE)]
        name = os.fsdecode(values[-1]).rpartition("/")[2] if values else ""
        # A word without .so stands for libnccl-profiler-WORD.so.
        if not name or ".so" not in name or name.startswith(NAMES):
            return ()
        return LibraryNames(name).mapped_by(pid, proc)
    except OSError:
        return ()
