"""The profiler plugins that processes have loaded, and the probes in them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engine.readings import ProbeStatus
from probes.bpf.errors import UnavailableError
from probes.elf.image import ElfError
from probes.functions.detaching import Detacher
from probes.libraries.maps import PROC, LibraryNames, open_mapped
from probes.nccl.plugin import read_plugin
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from pathlib import Path

    from probes.bpf.attachment import Attachment
    from probes.bpf.loader import BpfObject
    from probes.elf.image import Image
    from probes.libraries.maps import FileKey, Mapped
    from probes.nccl.plugin import Plugin

# A plugin for the network may hold a profiler too.
NAMES = ("libnccl-profiler", "libnccl-net")
VARIABLE = b"NCCL_PROFILER_PLUGIN="


@dataclass(slots=True)
class PluginFile:
    """A plugin in use. `versions`: of its tables."""

    path: str
    mapped: Mapped
    versions: tuple[int, ...] = ()
    attachments: list[Attachment] = field(default_factory=list)
    reason: str = ""
    detail: str = ""
    mend: str = ""


class Plugins:
    """Attaches to each plugin's functions. One thread uses it."""

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
                detail = f"{each.path}: {each.detail}; waits are those of synchronising calls"
                return ProbeStatus(probe, "degraded", each.reason, detail, each.mend)
        return None

    def attach(self, mapped: Mapped) -> None:
        """Probe a file that got its first user, if it is a plugin."""
        if mapped.key in self._files:
            return
        file = PluginFile(mapped.path, mapped)
        try:
            with open_mapped(mapped) as image:
                plugin = read_plugin(image)
                if plugin is None:
                    return
                self._files[mapped.key] = file
                file.versions = plugin.versions
                file.reason, file.detail = plugin.reason, plugin.detail
                if not self._suspended:
                    self._probe(file, image, plugin)
        except ElfError as error:
            self._files[mapped.key] = file
            file.reason, file.detail = "unreadable_library", str(error)
        except UnavailableError as error:
            self._release(file)
            file.reason, file.detail, file.mend = error.reason, error.detail, error.mend

    def detach(self, key: FileKey) -> None:
        """Let go of a file that nobody maps any more."""
        file = self._files.pop(key, None)
        if file is not None:
            self._release(file)

    def suspend(self) -> None:
        """Detach all plugins until `resume`."""
        self._suspended = True
        for file in self._files.values():
            self._release(file)

    def resume(self) -> None:
        """Attach them again."""
        self._suspended = False
        for key, file in list(self._files.items()):
            del self._files[key]
            self.attach(file.mapped)

    def close(self) -> None:
        """Detach everything and wait for it."""
        for key in list(self._files):
            self.detach(key)
        self._detacher.drain()

    def _probe(self, file: PluginFile, image: Image, plugin: Plugin) -> None:
        path = f"/proc/{os.getpid()}/fd/{image.fd}"
        # Ends first, so that what begins is seen to end.
        for hook in sorted(plugin.hooks, key=lambda each: each.program != "stop_event"):
            for address in hook.exits:
                offset = image.code_offset(address)
                file.attachments.append(self._bpf.attach_uprobe(hook.leave, path, offset))
            offset = image.code_offset(hook.address)
            file.attachments.append(self._bpf.attach_uprobe(hook.program, path, offset))

    def _release(self, file: PluginFile) -> None:
        released = [self._bpf.release(each) for each in reversed(file.attachments)]
        self._detacher.add(file.path, released)
        file.attachments = []


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
