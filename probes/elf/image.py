"""One ELF file opened for reading: sections, load segments, bytes at an address.

Files belong to the processes being watched, so nothing in them is trusted: every offset is checked
against the file, sizes are bounded, and the file is read with pread, since a mapping of a file that
its owner truncates would kill the agent with SIGBUS.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rules.errors import StallwatchError

if TYPE_CHECKING:
    from typing_extensions import Self

# libtorch_cpu.so carries 76 MB of .strtab; four times that is still a library and not an attack.
MAX_SECTION_BYTES = 320 << 20
PLT_SECTIONS = (".plt", ".plt.sec", ".plt.got", ".iplt")


class ElfError(StallwatchError):
    """The file is not an ELF file that can be probed; the text names the file and why."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section header: virtual address, place in the file and size in bytes."""

    name: str
    address: int
    offset: int
    size: int
    link: str = ""

    def __contains__(self, address: int) -> bool:
        return self.address <= address < self.address + self.size


@dataclass(frozen=True, slots=True)
class Segment:
    """A PT_LOAD program header."""

    address: int
    offset: int
    file_size: int


class Image:
    """An open ELF file of 64 bits, little-endian.

    `machine` is "x86-64" or "arm64". Raises ElfError for anything else.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            # Kept as our own descriptor: uprobes attach through /proc/AGENT/fd/N, which outlives
            # the process whose library this is.
            # Not blocking: the path is a job's own, and could name a pipe.
            self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise ElfError(f"{path}: cannot be opened: {error.strerror}") from error
        try:
            facts = os.fstat(self.fd)
            if not stat.S_ISREG(facts.st_mode):
                raise self.error("not a regular file")  # noqa: TRY301 - the descriptor is open
            self._file_size = facts.st_size
            self.machine, self.sections, self._segments = self._headers()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor; may be called twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def error(self, text: str) -> ElfError:
        """An ElfError that names this file."""
        return ElfError(f"{self.path}: {text}")

    def file_offset(self, address: int) -> int:
        """Where the byte at a virtual address lies in the file; this is what a uprobe takes."""
        for segment in self._segments:
            if segment.address <= address < segment.address + segment.file_size:
                return address - segment.address + segment.offset
        raise self.error(f"no load segment holds address {address:#x}")

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes at a virtual address."""
        return self.read_file(self.file_offset(address), size)

    def read_file(self, offset: int, size: int) -> bytes:
        """`size` bytes at a file offset."""
        if size > MAX_SECTION_BYTES or offset < 0 or offset + size > self._file_size:
            raise self.error(f"{size} bytes at {offset:#x} are not in the file")
        data = os.pread(self.fd, size, offset)
        if len(data) != size:
            raise self.error("the file was cut short while it was read")
        return data

    def content(self, name: str) -> bytes:
        """The bytes of a section; b"" when there is no such section."""
        section = self.sections.get(name)
        return self.read_file(section.offset, section.size) if section else b""

    def in_plt(self, address: int) -> bool:
        """Whether an address lies in a stub that jumps to another library."""
        return any(address in self.sections[name] for name in PLT_SECTIONS if name in self.sections)

    def _headers(self) -> tuple[str, dict[str, Section], tuple[Segment, ...]]:
        from elftools.common.exceptions import ELFError
        from elftools.construct import ConstructError
        from elftools.elf.elffile import ELFFile

        try:
            with os.fdopen(os.dup(self.fd), "rb") as stream:
                elf = ELFFile(stream)
                machine = {"EM_X86_64": "x86-64", "EM_AARCH64": "arm64"}.get(elf["e_machine"], "")
                if elf.elfclass != 64 or not elf.little_endian or not machine:
                    raise self.error("not for x86-64 or arm64")
                sections = _sections(elf)
                segments = tuple(
                    Segment(part["p_vaddr"], part["p_offset"], part["p_filesz"])
                    for part in elf.iter_segments("PT_LOAD")
                )
        except (ELFError, ConstructError, ValueError, KeyError, IndexError, OSError) as error:
            raise self.error(f"not a readable ELF file: {error}") from error
        return machine, sections, segments


def _sections(elf: Any) -> dict[str, Section]:
    found = {}
    headers = list(elf.iter_sections())
    for part in headers:
        if part["sh_type"] == "SHT_NOBITS":
            continue
        linked = headers[part["sh_link"]].name if part["sh_link"] else ""
        found[part.name] = Section(
            part.name, part["sh_addr"], part["sh_offset"], part["sh_size"], linked
        )
    return found
