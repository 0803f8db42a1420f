"""One ELF file opened for reading: sections, load segments, bytes at an address.

Files belong to the processes being watched, so nothing in them is trusted: every offset is checked
against the file, sizes are bounded, and the file is read with pread, since a mapping of a file that
its owner truncates would kill the agent with SIGBUS.
"""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rules.errors import StallwatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

# libtorch_cpu.so carries 76 MB of .strtab; twice that is still a library and not an attack.
MAX_SECTION_BYTES = 160 << 20
MAX_ADDRESS = 1 << 62
MAX_LABEL_BYTES = 256
# Elf64_Ehdr, Elf64_Phdr and Elf64_Shdr, elf(5).
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
PROGRAM_HEADER = np.dtype(
    [("type", "<u4"), ("flags", "<u4"), ("offset", "<u8"), ("address", "<u8"),
     ("physical", "<u8"), ("file_size", "<u8"), ("memory_size", "<u8"), ("align", "<u8")]
)  # fmt: skip
SECTION_HEADER = np.dtype(
    [("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"),
     ("size", "<u8"), ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entry_size", "<u8")]
)  # fmt: skip
ELF64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
MACHINES = {62: "x86-64", 183: "arm64"}
PT_LOAD = 1
PF_X = 1
SHT_NOBITS = 8
PLT_SECTIONS = (".plt", ".plt.sec", ".plt.got", ".iplt")


class ElfError(StallwatchError):
    """The file is not an ELF file that can be probed; the text names the file and why."""


class NotCodeError(ElfError):
    """No instruction begins where a symbol says that a function does."""


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
    """A PT_LOAD program header. `code`: what lies there may be executed."""

    address: int
    offset: int
    file_size: int
    code: bool = True

    def __contains__(self, address: int) -> bool:
        return self.address <= address < self.address + self.file_size


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
        """Where the byte at a virtual address lies in the file."""
        for segment in self._segments:
            if address in segment:
                return address - segment.address + segment.offset
        raise self.error(f"no load segment holds address {address:#x}")

    def code_offset(self, address: int) -> int:
        """The same for an instruction; this is what a uprobe takes.

        The kernel writes a breakpoint into any private mapping that is not writable, constants
        included, and the program would read it. Raises NotCodeError.
        """
        found = [segment for segment in self._segments if address in segment]
        offset = self.file_offset(address)
        if len(found) > 1 or not found[0].code or offset >= self._file_size:
            raise NotCodeError(f"{self.path}: address {address:#x} holds no code")
        return offset

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
        if self._file_size < HEADER.size:
            raise self.error("not an ELF file")
        header = HEADER.unpack(self.read_file(0, HEADER.size))
        ident, _, kind, _, _, at_segments, at_sections = header[:7]
        segment_size, segments, section_size, sections, names = header[9:]
        machine = MACHINES.get(kind, "")
        if not ident.startswith(ELF64_LITTLE_ENDIAN) or not machine:
            raise self.error("not an ELF file of 64 bits for x86-64 or arm64")
        if (segment_size, section_size) != (PROGRAM_HEADER.itemsize, SECTION_HEADER.itemsize):
            raise self.error("its headers have an unknown size")
        loads = self._table(at_segments, segments, PROGRAM_HEADER)
        found = tuple(
            Segment(
                int(each["address"]),
                int(each["offset"]),
                int(each["file_size"]),
                bool(each["flags"] & PF_X),
            )
            for each in loads[loads["type"] == PT_LOAD]
        )
        rows = self._table(at_sections, sections, SECTION_HEADER)
        return machine, self._sections(rows, names), found

    def _table(self, offset: int, count: int, kind: np.dtype[np.void]) -> NDArray[np.void]:
        rows = np.frombuffer(self.read_file(offset, count * kind.itemsize), kind)
        for name in ("address", "offset"):
            if np.any(rows[name] >= MAX_ADDRESS):
                raise self.error("a header holds an impossible address")
        return rows

    def _sections(self, rows: NDArray[np.void], names: int) -> dict[str, Section]:
        if names >= len(rows):
            raise self.error("its sections have no names")
        text = self.read_file(int(rows[names]["offset"]), int(rows[names]["size"]))
        labels = [_string(text, int(row["name"])) for row in rows]
        return {
            label: Section(
                label,
                int(row["address"]),
                int(row["offset"]),
                int(row["size"]),
                labels[int(row["link"])] if row["link"] < len(rows) else "",
            )
            for label, row in zip(labels, rows, strict=True)
            if row["type"] != SHT_NOBITS
        }


def _string(table: bytes, start: int) -> str:
    # 65,535 sections may share one name of a hundred megabytes.
    return table[start : start + MAX_LABEL_BYTES].partition(b"\0")[0].decode("utf-8", "replace")
