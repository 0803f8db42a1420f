"""Which instructions of which library file are probed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.readings import ProbeStatus
from probes.bpf import capabilities
from probes.bpf.errors import UnavailableError
from probes.elf.exits import find_exits
from probes.elf.image import ElfError, Image
from probes.elf.symbols import Symbol, find_functions
from probes.libraries.maps import FileKey, Mapped, open_mapped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from probes.bpf.attachment import Attachment
    from probes.bpf.loader import BpfObject

# Distinct libtorch files with running users: one per container image; each costs three uprobes.
MAX_FILES = 256


@dataclass(slots=True)
class Site:
    """The probes in one file. `reason`: a stable word for what it lacks, "" for nothing."""

    path: str
    attachments: list[Attachment] = field(default_factory=list)
    reason: str = ""
    detail: str = ""
    mend: str = ""


class Sites:
    """Attaches `enter` and `leave` to a function in each file; `mark` where exits are unknown."""

    def __init__(self, bpf: BpfObject, function: str) -> None:
        self._bpf = bpf
        self._function = function
        self._sites: dict[FileKey, Site] = {}

    @property
    def count(self) -> int:
        """Files with at least one probe."""
        return sum(bool(site.attachments) for site in self._sites.values())

    @property
    def problem(self) -> bool:
        """Whether some file is not fully probed."""
        return any(site.reason for site in self._sites.values())

    def sees_waits(self, files: Iterable[FileKey]) -> bool:
        """Whether a process with these files shows its waits: entry and exits are probed."""
        sites = [self._sites[key] for key in files if key in self._sites]
        return not sites or any(site.attachments and not site.reason for site in sites)

    def status(self, probe: str) -> ProbeStatus:
        """The line about the first file that is not fully probed."""
        site = next(site for site in self._sites.values() if site.reason)
        return ProbeStatus(probe, "degraded", site.reason, site.detail, site.mend)

    def attach(self, mapped: Mapped) -> None:
        """Probe a file that got its first user; what goes wrong is kept for `status`."""
        if mapped.key in self._sites:
            return
        site = self._sites[mapped.key] = Site(mapped.path)
        if len(self._sites) > MAX_FILES:
            site.reason = "too_many_libraries"
            site.detail = f"more than {MAX_FILES} different files of {mapped.name} are in use"
            return
        try:
            with open_mapped(mapped) as image:
                self._probe(site, image)
        except ElfError as error:
            site.reason, site.detail = "unreadable_library", str(error)
            if isinstance(error.__cause__, PermissionError):
                site.mend = capabilities.MEND_OTHERS
        except UnavailableError as error:
            self._release(site)
            site.reason, site.detail, site.mend = error.reason, error.detail, error.mend

    def detach(self, key: FileKey) -> None:
        """Let go of a file that nobody maps any more."""
        site = self._sites.pop(key, None)
        if site is not None:
            self._release(site)

    def _probe(self, site: Site, image: Image) -> None:
        functions = [each for each in find_functions(image, self._function) if not each.cold]
        if not functions:
            site.reason = "symbol_missing"
            site.detail = f"{site.path} has no {self._function}"
            site.mend = "a PyTorch built with USE_DISTRIBUTED=1 exports it"
        # The agent's own pid, not self: the path must mean the same to whoever resolves it.
        path = f"/proc/{os.getpid()}/fd/{image.fd}"
        for function in functions:
            self._probe_function(site, image, function, path)

    def _probe_function(self, site: Site, image: Image, function: Symbol, path: str) -> None:
        exits = find_exits(image, function)
        entry = image.file_offset(function.address)
        if exits.reason:
            site.reason = "exits_unknown"
            site.detail = f"{site.path}: steps are counted, waits are not: {exits.reason}"
            site.attachments.append(self._bpf.attach_uprobe("mark", path, entry))
            return
        # Exits first: a thread that enters before its exits are probed would stay open.
        for address in exits.addresses:
            offset = image.file_offset(address)
            site.attachments.append(self._bpf.attach_uprobe("leave", path, offset))
        site.attachments.append(self._bpf.attach_uprobe("enter", path, entry))

    def _release(self, site: Site) -> None:
        for attachment in site.attachments:
            self._bpf.detach(attachment)
        site.attachments = []
