"""Records from the kernel: a ring buffer, or per-CPU perf buffers where there is none."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any, Protocol

from probes.bpf import libbpf, syscall
from probes.bpf.errors import UnavailableError

if TYPE_CHECKING:
    from probes.bpf.maps import Map


class EventReader(Protocol):
    """Hands out the records that programs wrote."""

    def drain(self) -> list[bytes]:
        """Everything written since the last call, oldest first per CPU; never blocks."""
        ...

    def close(self) -> None:
        """Give the buffers back."""
        ...


class RingReader:
    """A BPF ring buffer, read through libbpf, which knows each architecture's barriers."""

    def __init__(self, events: Map) -> None:
        self._library = libbpf.library()
        self._records: list[bytes] = []
        self._callback = libbpf.ON_SAMPLE(self._take)  # libbpf keeps only the address
        self._ring = self._library.bpf_new_ringbuf(events.fd, self._callback, None)
        if not self._ring:
            raise UnavailableError("attach_failed", f"the ring buffer {events.name} cannot be read")

    def _take(self, _context: Any, data: int, size: int) -> int:
        self._records.append(ctypes.string_at(data, size))
        return 0

    def drain(self) -> list[bytes]:
        """Records since the last call."""
        self._library.bpf_consume_ringbuf(self._ring)
        records, self._records = self._records, []
        return records

    def close(self) -> None:
        """Free the reader."""
        if self._ring:
            self._library.bpf_free_ringbuf(self._ring)
            self._ring = None


class PerfReader:
    """Per-CPU perf buffers. `lost_total`: records that the kernel dropped, as it reports them."""

    def __init__(self, events: Map, pages: int) -> None:
        self._library = libbpf.library()
        self._records: list[bytes] = []
        self.lost_total = 0
        self._callback = libbpf.ON_RAW(self._take)
        self._lost = libbpf.ON_LOST(self._lose)
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

    def _lose(self, _context: Any, count: int) -> None:
        self.lost_total += count

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
