"""Records from the kernel: a ring buffer that grows, or per-CPU perf buffers without one."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import TYPE_CHECKING, Any, Protocol

from engine.doorbell import DOORBELL
from probes.bpf import libbpf, syscall
from probes.bpf.errors import UnavailableError

if TYPE_CHECKING:
    from probes.bpf.maps import Map

_SLOT = struct.pack("=I", 0)
_HEADER_BYTES = 8
# 4 MiB where pages have 4 KiB: a second of 50,000 records of 72 bytes.
MAX_PAGES = 1024


class EventReader(Protocol):
    """Hands out the records that programs wrote."""

    def drain(self) -> list[bytes]:
        """Everything written since the last call, oldest first per CPU; never blocks."""
        ...

    def close(self) -> None:
        """Give the buffers back."""
        ...


class _Ring:
    """One BPF ring buffer, read through libbpf, which knows each architecture's barriers."""

    def __init__(self, fd: int, size: int) -> None:
        self.fd = fd
        self.size = size
        self._library = libbpf.library()
        self._records: list[bytes] = []
        self._callback = libbpf.ON_SAMPLE(self._take)  # libbpf keeps only the address
        self._ring = self._library.bpf_new_ringbuf(fd, self._callback, None)
        if not self._ring:
            raise UnavailableError("attach_failed", "the ring buffer cannot be read")

    def _take(self, _context: Any, data: int, size: int) -> int:
        self._records.append(ctypes.string_at(data, size))
        return 0

    def drain(self) -> list[bytes]:
        self._library.bpf_consume_ringbuf(self._ring)
        records, self._records = self._records, []
        return records

    def close(self) -> None:
        self._library.bpf_free_ringbuf(self._ring)


class RingReader:
    """The ring in a slot of its own, replaced by one of twice the size when it is too small.

    A ring that was more than half full when it was drained, as every ring is that has refused a
    record, is replaced. Nothing is lost on the way: the kernel's update of the slot returns when
    no program uses the ring before any more (maybe_wait_bpf_programs of kernel/bpf/syscall.c), and
    only then that one is drained for the last time. Kernels before 5.10 demand one size of all
    rings of a slot; there it stays as it is.

    The reader is woken by the record that fills half of the ring, or, if `prompt`, by the first
    one in an empty ring. `size`: of the ring in use, bytes. `replaced_total`: how often it grew.
    """

    def __init__(self, slot: Map, ring: int, mark: Map, *, max_pages: int, prompt: bool) -> None:
        self._slot = slot
        self._mark = mark
        self._max_size = max_pages * os.sysconf("SC_PAGE_SIZE")
        self._prompt = prompt
        self._can_grow = True
        self.replaced_total = 0
        self._ring = _Ring(ring, syscall.map_info(ring).max_entries)
        self._use()

    @property
    def size(self) -> int:
        """Bytes of the ring in use."""
        return self._ring.size

    def _use(self) -> None:
        mark = 0 if self._prompt else self.size // 2
        self._mark.update(_SLOT, struct.pack("=Q", mark))
        DOORBELL.add(self._ring.fd)

    def drain(self) -> list[bytes]:
        """Records since the last call, in the order in which they were written."""
        records = self._ring.drain()
        used = sum((len(record) + _HEADER_BYTES + 7) & ~7 for record in records)
        if used > self.size // 2 and self._can_grow and self.size * 2 <= self._max_size:
            records += self._grow()
        return records

    def _grow(self) -> list[bytes]:
        """Put a larger ring in the slot; what was still written to the one before."""
        before = self._ring
        try:
            fd = syscall.map_create(syscall.MAP_TYPE_RINGBUF, 0, 0, before.size * 2)
            try:
                larger = _Ring(fd, before.size * 2)
                self._slot.update(_SLOT, struct.pack("=I", fd))
            except BaseException:
                os.close(fd)
                raise
        except OSError as error:
            # No memory for it (ENOMEM, EPERM by the locked-memory limit), or an old kernel.
            self._can_grow = error.errno not in {errno.EINVAL, errno.EPERM}
            return []
        rest = before.drain()
        self._release(before)
        self._ring = larger
        self.replaced_total += 1
        self._use()
        return rest

    def _release(self, ring: _Ring) -> None:
        DOORBELL.remove(ring.fd)
        ring.close()
        os.close(ring.fd)

    def close(self) -> None:
        """Free the reader."""
        if self._ring.fd >= 0:
            self._release(self._ring)
            self._ring.fd = -1


class PerfReader:
    """Per-CPU perf buffers."""

    def __init__(self, events: Map, pages: int) -> None:
        self._library = libbpf.library()
        self._records: list[bytes] = []
        self._callback = libbpf.ON_RAW(self._take)
        self._lost = libbpf.ON_LOST(_ignore_loss)
        self._readers: list[Any] = []
        for cpu in range(syscall.possible_cpus()):
            reader = self._library.bpf_open_perf_buffer(
                self._callback, self._lost, None, -1, cpu, pages
            )
            if reader:  # an offline CPU has none
                fd = self._library.perf_reader_fd(reader)
                events.update(struct.pack("=I", cpu), struct.pack("=I", fd))
                self._readers.append(reader)

    def _take(self, _context: Any, data: int, size: int) -> None:
        self._records.append(ctypes.string_at(data, size))

    def drain(self) -> list[bytes]:
        """Records since the last call."""
        readers = (ctypes.c_void_p * len(self._readers))(*self._readers)
        self._library.perf_reader_poll(len(readers), readers, 0)
        records, self._records = self._records, []
        return records

    def close(self) -> None:
        """Free the readers."""
        for reader in self._readers:
            self._library.perf_reader_free(reader)
        self._readers = []


def _ignore_loss(_context: Any, _count: int) -> None:
    """The program that could not write has counted it; without a callback bcc prints it."""
