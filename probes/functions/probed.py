"""A library file that is probed: kept open, its functions' places, and whether it is still it."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

from probes.functions.overwriting import OVERWRITING
from probes.functions.places import find_places
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probes.bpf.attachment import Attachment
    from probes.elf.image import Image
    from probes.functions.function import Function
    from probes.functions.overwriting import Guarded, Release
    from probes.functions.places import Places
    from probes.libraries.maps import FileKey


Identity: TypeAlias = "tuple[int, int, int, int]"

# What was found in files lately. A job that is started again maps the same files, and looking for
# fifteen functions in libtorch takes half a second, in which its first steps would be missed.
_FOUND: OrderedDict[tuple[Identity, Function], Places] = OrderedDict()
MAX_FOUND = 4096


@dataclass(slots=True)
class Site:
    """A function in one file. `reason`: a stable word for what it lacks, "" for nothing."""

    places: Places
    attachments: list[Attachment] = field(default_factory=list)
    reason: str = ""
    detail: str = ""
    mend: str = ""


@dataclass(slots=True)
class File:
    """A library file that is mapped; `image` is kept open, so that it can be attached again."""

    key: FileKey
    path: str
    identity: Identity = (0, 0, 0, 0)
    state: tuple[int, int] = (0, 0)
    image: Image | None = None
    guarded: Guarded | None = None
    sites: dict[str, Site] = field(default_factory=dict)
    reason: str = ""
    detail: str = ""
    mend: str = ""

    def open(self, image: Image, release: Release) -> None:
        """Take a file that was opened; `release` takes its probes once it is written.

        Again for what was written: from now on only what is written later is noticed.
        """
        if self.guarded is not None:
            OVERWRITING.leave(self.guarded)
        # Guarded first: what is written afterwards is noticed, what was before is read.
        self.image, self.guarded = image, OVERWRITING.guard(image.fd, release)
        self.identity, self.state = identity_of(image), state_of(image)

    def close(self) -> None:
        """Its probes are gone."""
        if self.guarded is not None:
            OVERWRITING.leave(self.guarded)
        if self.image is not None:
            self.image.close()
        self.image = self.guarded = None

    def written(self) -> bool:
        """Whether the file has other content than when it was opened, or may have."""
        if self.image is None:
            return False
        guarded = self.guarded
        return (guarded is not None and guarded.written) or state_of(self.image) != self.state

    def places(self, image: Image, function: Function) -> Places:
        """Where a function is, remembered for a file of the same identity. Raises ElfError."""
        key = (self.identity, function)
        if key not in _FOUND:
            _FOUND[key] = find_places(image, function)
            if len(_FOUND) > MAX_FOUND:
                _FOUND.popitem(last=False)
        return _FOUND[key]

    def hold(self, name: str, attachments: Sequence[Attachment]) -> None:
        """A function's probes are attached: whoever writes into the file takes them out."""
        if self.guarded is not None:
            OVERWRITING.hold(self.guarded, (self.identity, name), attachments)

    def drop(self, name: str) -> None:
        """They are let go of."""
        if self.guarded is not None:
            OVERWRITING.drop(self.guarded, (self.identity, name))

    def complaints(self) -> list[tuple[str, str, str]]:
        """(reason, detail, mend) of the file and its functions."""
        parts: list[File | Site] = [self, *self.sites.values()]
        return [(each.reason, each.detail, each.mend) for each in parts if each.reason]


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
